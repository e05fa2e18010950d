//! Lists whose values are shared in memory, written and read as plain lists.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

pub(crate) fn serialize<T: Serialize, S: Serializer>(
    list: &[Arc<T>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(|value| &**value))
}

pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Arc<T>>, D::Error> {
    Ok(Vec::<T>::deserialize(deserializer)?.into_iter().map(Arc::new).collect())
}
