//! What a hostile peer does, and how its victim is to see it.

use super::attacker::Hostile;

/// How the victim sees the peer afterwards.
#[derive(Clone, Debug)]
pub enum Seen {
    /// As one that broke the protocol at this place.
    Cut(&'static str),
    /// As one like any other; its operations stand as these words say.
    Fine(&'static str),
}

pub type Act = Box<dyn Fn(&mut Hostile)>;

pub struct Case {
    pub name: String,
    pub act: Act,
    pub seen: Seen,
    /// Messages that the victim sends beside what it always does.
    pub chatter: usize,
    /// Bytes of the victim's last get, which both sides may move.
    pub get: usize,
    /// Bytes of the message that the victim announces.
    pub long: usize,
    /// Only where the kernel moves bytes between processes (`Some(true)`), or does not.
    pub kernel: Option<bool>,
}

impl Case {
    pub fn applies(&self, limit: &str) -> bool {
        self.kernel.is_none_or(|kernel| kernel == (limit != "Cma"))
    }

    pub fn is_right(&self, said: &str) -> bool {
        match self.seen {
            Seen::Cut(place) => said.starts_with(&format!("cut {place} ")),
            Seen::Fine(words) => {
                said.starts_with("fine ") && words.split(' ').all(|word| said.contains(word))
            }
        }
    }
}

/// A table in the making.
#[derive(Default)]
pub struct Table(pub Vec<Case>);

impl Table {
    /// Adds a case.
    pub fn add(&mut self, name: impl ToString, seen: Seen, act: impl Fn(&mut Hostile) + 'static) {
        let name = name.to_string();
        let (act, get, long) = (Box::new(act), 600_000, 200_000);
        self.0.push(Case { name, act, seen, chatter: 0, get, long, kernel: None });
    }

    /// The peer is cut off for what it wrote at `place`.
    pub fn cut(
        &mut self,
        name: impl ToString,
        place: &'static str,
        act: impl Fn(&mut Hostile) + 'static,
    ) {
        self.add(name, Seen::Cut(place), act);
    }

    /// Nobody cares.
    pub fn fine(
        &mut self,
        name: impl ToString,
        words: &'static str,
        act: impl Fn(&mut Hostile) + 'static,
    ) {
        self.add(name, Seen::Fine(words), act);
    }

    /// Changes the case that was added last.
    pub fn last(&mut self) -> &mut Case {
        self.0.last_mut().expect("a case")
    }
}
