//! Connections: frames in order, from one incarnation to one incarnation, until one end gives up.

use crate::wiring::Frame;
use std::collections::VecDeque;

/// One end of a connection between two ranks.
#[derive(Debug, Default)]
pub struct End {
    /// This rank takes the connection to be there.
    pub open: bool,
    /// The incarnation that it is with.
    pub incarnation: u32,
    /// The other end is gone: what is in the inbox is all that will come.
    pub cut: bool,
    /// What has come and was not looked at.
    pub inbox: VecDeque<Frame>,
}

/// A frame of a connection that was given up, still somewhere.
#[derive(Debug)]
pub struct Stray {
    /// Its sender.
    pub from: u32,
    /// The incarnation of the sender.
    pub incarnation: u32,
    /// Where it comes out.
    pub to: u32,
    /// What it is.
    pub frame: Frame,
}

/// All connections.
#[derive(Debug)]
pub struct Network {
    ranks: usize,
    ends: Vec<End>,
    /// Frames of dead incarnations.
    pub strays: Vec<Stray>,
}

impl Network {
    /// All ranks are connected, in their first incarnation.
    pub fn new(ranks: u32) -> Self {
        let ends = (0..ranks * ranks).map(|_| End { open: true, ..End::default() }).collect();
        Network { ranks: ranks as usize, ends, strays: Vec::new() }
    }

    /// The end at `rank` of its connection with `peer`.
    pub fn end(&mut self, rank: u32, peer: u32) -> &mut End {
        &mut self.ends[rank as usize * self.ranks + peer as usize]
    }

    /// As [`end`](Self::end).
    pub fn see(&self, rank: u32, peer: u32) -> &End {
        &self.ends[rank as usize * self.ranks + peer as usize]
    }

    /// Puts a frame on the connection; it vanishes if that is gone.
    pub fn write(&mut self, from: u32, to: u32, frame: Frame) {
        if !self.see(from, to).cut {
            self.end(to, from).inbox.push_back(frame);
        }
    }

    /// A rank has died: its ends are gone, and its peers have what it wrote.
    pub fn died(&mut self, rank: u32) {
        for peer in 0..self.ranks as u32 {
            *self.end(rank, peer) = End::default();
            self.end(peer, rank).cut = true;
        }
    }

    /// The connection of two ranks is lost, with all but so many of the frames under way.
    pub fn lost(&mut self, a: u32, b: u32, kept: [usize; 2]) {
        for ((rank, peer), kept) in [(a, b), (b, a)].into_iter().zip(kept) {
            let end = self.end(rank, peer);
            end.cut = true;
            end.inbox.truncate(kept);
        }
    }

    /// A rank gives a connection up. Frames that it has not looked at are lost, or stray if the peer
    /// is dead.
    pub fn give_up(&mut self, rank: u32, peer: u32, stray: bool) {
        let end = std::mem::take(self.end(rank, peer));
        if stray {
            let incarnation = end.incarnation;
            let frames = end.inbox.into_iter();
            let strays = frames.map(|frame| Stray { from: peer, incarnation, to: rank, frame });
            self.strays.extend(strays);
        }
    }

    /// Connects two ranks.
    pub fn connect(&mut self, [(a, of_a), (b, of_b)]: [(u32, u32); 2]) {
        *self.end(a, b) = End { open: true, incarnation: of_b, ..End::default() };
        *self.end(b, a) = End { open: true, incarnation: of_a, ..End::default() };
    }
}
