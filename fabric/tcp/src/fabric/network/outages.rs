//! Outages that last longer than one connection: handshakes pass, and nothing else does.

use super::{Fault, LinkEvent, Outage, Peer, PeerId, TcpFabric};
use crate::Config;
use crate::call::Failed;
use std::time::{Duration, Instant};

/// Says that nothing comes through to a peer, if nothing has for long.
pub(super) fn say_long(outage: &mut Outage, config: &Config, me: u32, peer: PeerId, why: &str) {
    if let Some(took) = outage.long(Instant::now()) {
        let lost = outage.lost.as_ref().map_or(String::new(), |lost| format!("{lost}; "));
        let seconds = took.as_secs();
        (config.say)(&format!(
            "rank {me} has not reached rank {} for {seconds} s ({lost}{why}); it tries again",
            peer.0
        ));
    }
}

impl TcpFabric {
    /// A connection is lost: the outage that lasts, or a new one; and the pause before a connection is made.
    pub(super) fn outage(
        &mut self,
        peer: PeerId,
        why: String,
        acknowledged: u64,
    ) -> (Outage, Duration) {
        let before = self.network.as_mut().and_then(|network| network.outages.remove(&peer.0));
        match before {
            Some(mut outage) => {
                outage.lost_again(Instant::now(), why);
                let pause = outage.next_pause();
                (outage, pause)
            }
            None => (Outage::new(Instant::now(), Some(why), acknowledged), Duration::ZERO),
        }
    }

    /// A link has ended, and with it what is under way to make a connection.
    pub(in super::super) fn end_outage(&mut self, peer: PeerId) {
        self.hang_up(peer);
        if let Some(network) = &mut self.network {
            network.outages.remove(&peer.0);
        }
    }

    /// A connection is up, over which the peer has said that it has received this many bytes.
    pub(super) fn connected(&mut self, peer: PeerId, received: u64) {
        let Config { heartbeat, patience, report_link, .. } = self.config;
        let (Some(network), Peer::Up(link)) = (&mut self.network, &self.peers[peer.index()]) else {
            return;
        };
        let Some(mut outage) = network.outages.remove(&peer.0) else { return };
        let now = Instant::now();
        let Some(stalled) = outage.connected(now, received, link.tx.is_done(), heartbeat) else {
            return;
        };
        if let Some(failed) = stalled {
            outage.report_down(now, (peer, link.incarnation), &failed, report_link);
            say_long(&mut outage, &self.config, network.me.rank, peer, &failed.why);
            if now >= outage.since + patience {
                let lost = outage.lost.take();
                return self.give_up(peer, lost, failed);
            }
        }
        network.outages.insert(peer.0, outage);
    }

    /// The patience with a peer has run out.
    pub(super) fn give_up(&mut self, peer: PeerId, lost: Option<String>, failed: Failed) {
        let address = self.contact_of(peer).address;
        let address = address.map_or("no address".to_owned(), |address| address.to_string());
        let fault = match lost {
            Some(lost) => {
                Fault::Lost(format!("{lost}; not made anew with {address}: {}", failed.why))
            }
            None => Fault::Unreachable { address, why: failed.why },
        };
        self.end(peer, LinkEvent::Broken(fault));
    }
}
