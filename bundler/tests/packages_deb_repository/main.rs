//! Repositories made on the spot and signed by the real gpg: what is accepted, what is refused,
//! and that each refusal names the repo and the file.

mod content;
mod forms;
mod repo;
mod servers;
mod signatures;
