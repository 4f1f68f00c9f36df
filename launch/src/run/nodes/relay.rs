//! Events of ranks as the frames that carry them to the launcher (MEMBER), and back.

use super::index;
use crate::run::life::{By, Event};
use std::time::Duration;
use taffrail_agent::RankIncarnation;
use taffrail_agent::wire::{Frame, Member, MemberEvent};

/// The frame of what a process of a rank has reported. Other events are no business of an agent.
pub fn to_frame(life: RankIncarnation, event: Event) -> Option<Frame> {
    use MemberEvent as Kind;
    let member = |event, pid: i32, value, text| {
        let pid = u32::try_from(pid).unwrap_or(0);
        Some(Frame::Member { life, member: Member { event, pid, value, text } })
    };
    let plain = |event, pid| member(event, pid, 0, String::new());
    match event {
        Event::Joined { pid, by: By::Pmi, .. } => plain(Kind::JoinedPmi, pid),
        Event::Joined { pid, by: By::Pmix, .. } => plain(Kind::JoinedPmix, pid),
        Event::Joined { pid, by: By::Endpoint, .. } => plain(Kind::JoinedEndpoint, pid),
        Event::Finalised { pid, by: By::Pmi, .. } => plain(Kind::FinalisedPmi, pid),
        Event::Finalised { pid, by: By::Pmix, .. } => plain(Kind::FinalisedPmix, pid),
        Event::Finalised { pid, by: By::Endpoint, .. } => plain(Kind::FinalisedEndpoint, pid),
        Event::Exits { pid, status, .. } => member(Kind::Exits, pid, status.into(), String::new()),
        Event::ProgramOver { pid, .. } => plain(Kind::ProgramOver, pid),
        Event::Aborted { code, text, .. } => {
            member(Kind::Aborted, 0, code, text.unwrap_or_default())
        }
        Event::MemberGone { pid, .. } => plain(Kind::Gone, pid),
        Event::Overdue { limit, .. } => {
            member(Kind::Overdue, 0, limit.as_millis() as i64, String::new())
        }
        _ => None,
    }
}

/// The event that an agent has reported.
pub fn to_event(life: RankIncarnation, member: Member) -> Event {
    use MemberEvent as Kind;
    let rank = index(life);
    let pid = i32::try_from(member.pid).unwrap_or(0);
    let joined = |by| Event::Joined { rank, pid, by };
    let finalised = |by| Event::Finalised { rank, pid, by };
    match member.event {
        Kind::JoinedPmi => joined(By::Pmi),
        Kind::JoinedPmix => joined(By::Pmix),
        Kind::JoinedEndpoint => joined(By::Endpoint),
        Kind::FinalisedPmi => finalised(By::Pmi),
        Kind::FinalisedPmix => finalised(By::Pmix),
        Kind::FinalisedEndpoint => finalised(By::Endpoint),
        Kind::Exits => Event::Exits { rank, pid, status: member.value as i32 },
        Kind::ProgramOver => Event::ProgramOver { rank, pid },
        Kind::Aborted => {
            let text = Some(member.text).filter(|text| !text.is_empty());
            Event::Aborted { rank, code: member.value, text }
        }
        Kind::Gone => Event::MemberGone { rank, pid },
        Kind::Overdue => {
            let limit = Duration::from_millis(member.value.unsigned_abs());
            Event::Overdue { rank, limit }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_report_arrives_as_it_was() {
        let (rank, pid) = (3, 17);
        let by = [By::Pmi, By::Pmix, By::Endpoint];
        let mut events: Vec<Event> = by.map(|by| Event::Joined { rank, pid, by }).into();
        events.extend(by.map(|by| Event::Finalised { rank, pid, by }));
        events.push(Event::Exits { rank, pid, status: -1 });
        events.push(Event::ProgramOver { rank, pid });
        events.push(Event::Aborted { rank, code: 1 << 40, text: Some("why".into()) });
        events.push(Event::Aborted { rank, code: -2, text: None });
        events.push(Event::MemberGone { rank, pid });
        events.push(Event::Overdue { rank, limit: Duration::from_millis(1500) });
        for event in events {
            let before = format!("{event:?}");
            let frame = to_frame(RankIncarnation::new(3, 1), event).unwrap();
            let Frame::Member { life, member } = frame else { panic!("{frame:?}") };
            assert_eq!(format!("{:?}", to_event(life, member)), before);
        }
    }
}
