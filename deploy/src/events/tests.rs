use super::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The names of all events, from the one who knows them.
fn names() -> BTreeSet<String> {
    let error = serde_json::from_str::<Event>(r#"{"event": "?"}"#).unwrap_err().to_string();
    let names = error.split_once("expected one of ").expect("it says which there are").1;
    names.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

#[test]
fn the_page_about_events_names_all_of_them_and_its_examples_are_written_and_read_back() {
    let page = include_str!("../../../docs/events.md");
    let mut told = BTreeSet::new();
    for part in page.split("\n### `").skip(1) {
        let (name, part) = part.split_once('`').unwrap();
        let line = part.lines().find(|line| line.starts_with("{\"run\":")).expect("an example");
        let example: Told = serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(serde_json::to_string(&example).unwrap(), line, "{name}");
        let value = serde_json::to_value(&example).unwrap();
        assert_eq!(value["event"], name);
        let fields = value
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| !["run", "cluster", "number", "time", "event"].contains(&key.as_str()));
        for field in fields {
            assert!(part.contains(&format!("`{field}`")), "{name}: nothing is said about {field}");
        }
        told.insert(name.to_string());
    }
    assert_eq!(told, names());
}

#[test]
fn a_late_watcher_is_given_what_it_missed() {
    let history = Arc::new(History::new(3));
    let events = Stamped::new("demo", history.clone()).unwrap();
    assert_eq!(history.after(0), Missed { events: Vec::new(), lost: 0 });
    for text in ["a", "b", "c", "d", "e"] {
        events.event(Event::note(None, text));
    }
    let numbers = |number| history.after(number).events.iter().map(|told| told.number).collect::<Vec<_>>();
    assert_eq!(numbers(3), [4, 5]);
    assert_eq!(numbers(0), [3, 4, 5]);
    assert_eq!((history.after(0).lost, history.after(2).lost, history.after(5).lost), (2, 0, 0));
    let last = history.after(4).events.remove(0);
    assert_eq!((last.cluster.as_str(), last.run.len()), ("demo", 16));
    assert!(last.time.parse::<jiff::Timestamp>().is_ok(), "{}", last.time);
    assert_eq!(last.event, Event::note(None, "e"));
}
