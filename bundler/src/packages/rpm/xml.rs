//! Walking over a repository's XML: local names, text, and nothing else.
//!
//! Document type declarations are refused, so there are no entities to explode; only XML's own
//! five and character references are known.

use quick_xml::Reader;
use quick_xml::escape::{resolve_predefined_entity, unescape};
use quick_xml::events::{BytesStart, Event};
use std::borrow::Cow;
use std::io::{self, BufRead, Read};

/// The longest text or attribute that is trusted.
const MAX_TEXT: usize = 1 << 20;
/// The longest tag, text or comment as written: escaped, a text may be longer than it is.
const MAX_EVENT: usize = 4 * MAX_TEXT;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("broken XML at byte {at}: {reason}")]
    Broken { at: u64, reason: String },
    #[error("a document type declaration at byte {at}, which no repository needs")]
    DocType { at: u64 },
    #[error("a string longer than {} KiB at byte {at}", MAX_TEXT >> 10)]
    TooLong { at: u64 },
}

/// Is told of every element as it is met. Names come without their namespace prefix.
pub trait Visit {
    fn start(&mut self, name: &str, attributes: &Attributes<'_>) -> Result<(), String>;
    /// `text` is what was between the last tag and this one.
    fn end(&mut self, name: &str, text: &str) -> Result<(), String>;
}

pub struct Attributes<'a>(&'a BytesStart<'a>);

impl Attributes<'_> {
    /// Hands every attribute to `each`, unescaped.
    pub fn each(&self, mut each: impl FnMut(&str, Cow<'_, str>)) -> Result<(), String> {
        for attribute in self.0.attributes().with_checks(false) {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let raw: &str = &attribute.value;
            let value = if raw.contains('&') {
                Cow::Owned(unescape(raw).map_err(|error| error.to_string())?.into_owned())
            } else {
                Cow::Borrowed(raw)
            };
            each(local(attribute.key.as_ref()), value);
        }
        Ok(())
    }

    pub fn get(&self, key: &str) -> Result<Option<String>, String> {
        let mut found = None;
        self.each(|name, value| {
            if name == key {
                found = Some(value.into_owned());
            }
        })?;
        Ok(found)
    }

    pub fn required(&self, key: &str) -> Result<String, String> {
        self.get(key)?.ok_or_else(|| format!("attribute `{key}` is missing"))
    }
}

pub fn walk(input: impl BufRead, visitor: &mut impl Visit) -> Result<(), Error> {
    let mut reader = Reader::from_reader(Pieces { input, left: MAX_EVENT });
    let mut buffer = Vec::with_capacity(4 << 10);
    let mut text = String::new();
    let mut depth = 0usize;
    loop {
        buffer.clear();
        reader.get_mut().left = MAX_EVENT;
        let event = reader.read_event_into(&mut buffer);
        let at = reader.buffer_position();
        if event.is_err() && reader.get_ref().left == 0 {
            return Err(Error::TooLong { at });
        }
        let broken = |reason: String| Error::Broken { at, reason };
        let mut add = |piece: &str| {
            text.push_str(piece);
            if text.len() > MAX_TEXT { Err(Error::TooLong { at }) } else { Ok(()) }
        };
        match event.map_err(|error| broken(error.to_string()))? {
            Event::Start(tag) => {
                depth += 1;
                text.clear();
                visitor.start(local(tag.name().as_ref()), &Attributes(&tag)).map_err(broken)?;
            }
            Event::Empty(tag) => {
                text.clear();
                let name = tag.name();
                visitor.start(local(name.as_ref()), &Attributes(&tag)).map_err(broken)?;
                visitor.end(local(name.as_ref()), "").map_err(broken)?;
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                visitor.end(local(tag.name().as_ref()), text.trim()).map_err(broken)?;
                text.clear();
            }
            Event::Text(piece) => add(&piece)?,
            Event::CData(piece) => add(&piece)?,
            Event::GeneralRef(reference) => {
                let name: &str = &reference;
                if let Some(known) = resolve_predefined_entity(name) {
                    add(known)?;
                } else if let Ok(Some(character)) = reference.resolve_char_ref() {
                    add(character.encode_utf8(&mut [0; 4]))?;
                } else {
                    return Err(broken(format!("unknown entity `&{name};`")));
                }
            }
            Event::DocType(_) => return Err(Error::DocType { at }),
            Event::Eof if depth > 0 => return Err(broken("the file ends in the middle".into())),
            Event::Eof => return Ok(()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
}

/// Fails where one event is endless: the reader collects each whole before it hands it out.
struct Pieces<R> {
    input: R,
    /// Of the current event.
    left: usize,
}

impl<R: BufRead> BufRead for Pieces<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let available = self.input.fill_buf()?;
        if self.left == 0 && !available.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(&available[..available.len().min(self.left)])
    }

    fn consume(&mut self, amount: usize) {
        self.left = self.left.saturating_sub(amount);
        self.input.consume(amount);
    }
}

impl<R: BufRead> Read for Pieces<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(buffer)?;
        self.consume(n);
        Ok(n)
    }
}

fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    struct Ignore;

    impl Visit for Ignore {
        fn start(&mut self, _: &str, _: &Attributes<'_>) -> Result<(), String> {
            Ok(())
        }

        fn end(&mut self, _: &str, _: &str) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn endless_events_are_refused_while_they_are_read() {
        for start in ["<a>", "<a b=\"", "<a><!--", "<a><![CDATA[", "<a><?b ", "<"] {
            let endless = start.as_bytes().chain(io::repeat(b'x'));
            let result = walk(BufReader::new(endless), &mut Ignore);
            assert!(matches!(result, Err(Error::TooLong { .. })), "{start}: {result:?}");
        }
        let many = "<b c=\"d\">text</b>".repeat(MAX_EVENT / 10);
        assert!(walk(format!("<a>{many}</a>").as_bytes(), &mut Ignore).is_ok());
    }
}
