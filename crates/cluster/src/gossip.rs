//! The SWIM failure detector foca, which receives checked packets only.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Entropy;
use foca::{AccumulatingRuntime, Foca, Member, Message, NoCustomBroadcast, OwnedNotification, PeriodicParams, Timer};

use crate::Config;
use crate::codec::PacketCodec;
use crate::identity::Identity;
use crate::packet::{self, GOSSIP_BYTES_MAX};
use crate::suspicion;
use crate::table::{LiveMember, MEMBERS_MAX};

/// Minimum interval of new incarnations of a node that others repeatedly declare dead. Without it, two nodes would contradict
/// each other at the speed of the network.
const RENEW_PERIOD: Duration = Duration::from_millis(200);

/// Timeout of a probe before indirect probes: less than half of the interval.
const PROBE_TIMEOUT: Duration = Duration::from_millis(200);

/// The failure detector.
pub(crate) struct Gossip {
    foca: Foca<Identity, PacketCodec, EntropyRng, NoCustomBroadcast>,
    runtime: AccumulatingRuntime<Identity>,
    renewed_at: Option<Duration>,
}

/// Actions requested by foca.
#[derive(Debug, Default)]
pub(crate) struct GossipActions {
    pub(crate) send: Vec<(SocketAddr, Vec<u8>)>,
    pub(crate) timers: Vec<(Duration, Timer<Identity>)>,
    /// Members that are newly live, or in a new incarnation.
    pub(crate) up: Vec<Identity>,
    /// The live members have changed.
    pub(crate) changed: bool,
    /// This node was declared dead and has a new incarnation.
    pub(crate) renewed: bool,
    /// This node was declared dead and cannot refute it.
    pub(crate) defunct: bool,
}

/// Random numbers of the environment.
struct EntropyRng(Arc<dyn Entropy>);

impl rand_core::TryRng for EntropyRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.0.next_u64().to_le_bytes();
            chunk.iter_mut().zip(drawn).for_each(|(byte, drawn)| *byte = drawn);
        }
        Ok(())
    }
}

fn config(config: &Config) -> foca::Config {
    let every =
        |frequency, members| NonZeroUsize::new(members).map(|num_members| PeriodicParams { frequency, num_members });
    foca::Config {
        probe_period: config.probe_period,
        probe_rtt: PROBE_TIMEOUT,
        suspect_to_down_after: config.suspect_timeout,
        // Sufficient for some hundred nodes with 20% packet loss.
        max_transmissions: NonZeroU8::new(10).unwrap_or(NonZeroU8::MIN),
        // The member table keeps them longer. Foca needs them only until no packet reports them as live.
        remove_down_after: Some(Duration::from_secs(3_600)),
        max_packet_size: NonZeroUsize::new(GOSSIP_BYTES_MAX).unwrap_or(NonZeroUsize::MIN),
        notify_down_members: true,
        periodic_announce: every(Duration::from_secs(30), 1),
        // Merges halves of a cluster that have declared each other dead.
        periodic_announce_to_down_members: every(Duration::from_secs(1), 2),
        periodic_gossip: every(Duration::from_millis(200), 3),
        ..foca::Config::simple()
    }
}

impl Gossip {
    pub(crate) fn new(me: Identity, settings: &Config, entropy: Arc<dyn Entropy>) -> Self {
        let foca = Foca::new(me, config(settings), EntropyRng(entropy), PacketCodec);
        Self { foca, runtime: AccumulatingRuntime::new(), renewed_at: None }
    }

    pub(crate) fn me(&self) -> Identity {
        *self.foca.identity()
    }

    /// The live members, including this node, by address.
    pub(crate) fn live_members(&self) -> Vec<LiveMember> {
        let me = LiveMember { identity: self.me(), suspect: false };
        let others = self.foca.iter_members();
        let others =
            others.map(|member| LiveMember { identity: *member.id(), suspect: member.state() == foca::State::Suspect });
        let mut seen: Vec<LiveMember> = others.chain([me]).collect();
        seen.sort_unstable_by_key(|seen| seen.identity.address);
        seen
    }

    /// A suspicion notice for each suspected member, by address.
    pub(crate) fn suspicion_notices(&self) -> Vec<(SocketAddr, Vec<u8>)> {
        let suspects = self.foca.iter_members().filter(|member| member.state() == foca::State::Suspect);
        let mut notices: Vec<_> = suspects
            .filter_map(|suspect| Some((suspect.id().address, suspicion::suspicion_notice(self.me(), suspect)?)))
            .collect();
        notices.sort_unstable();
        notices
    }

    pub(crate) fn is_isolated(&self) -> bool {
        self.foca.num_members() == 0
    }

    /// Members that foca has declared dead, by address.
    pub(crate) fn down_members(&self) -> Vec<Identity> {
        let down = self.foca.iter_membership_state().filter(|member| member.state() == foca::State::Down);
        let mut down: Vec<Identity> = down.map(|member| *member.id()).collect();
        down.retain(|identity| identity.address != self.me().address);
        down.sort_unstable();
        down
    }

    /// The identity of another process at this node's address with a higher incarnation, if the packet names one.
    pub(crate) fn later_incarnation(&self, packet: &packet::GossipPacket<'_>) -> Option<Identity> {
        let me = self.me();
        let named = packet.members.iter().map(Member::id).chain([&packet.header.dst]);
        let rivals = named.filter(|id| id.address == me.address && id.base_incarnation() > me.base_incarnation());
        rivals.max_by_key(|id| id.incarnation).copied()
    }

    /// Handles a packet; false if it is ignored because it would exceed the maximum of members.
    pub(crate) fn receive(&mut self, packet: &packet::GossipPacket<'_>, now: Duration) -> bool {
        let turned = packet.header.message == Message::TurnUndead;
        let recently = self.renewed_at.is_some_and(|at| now.saturating_sub(at) < RENEW_PERIOD);
        if turned && recently {
            return true;
        }
        let named = packet.members.len() + 1;
        if self.foca.iter_membership_state().len() + named > 2 * MEMBERS_MAX {
            let known =
                |id: &Identity| self.foca.iter_membership_state().any(|member| member.id().address == id.address);
            if !(known(&packet.header.src) && packet.members.iter().all(|member| known(member.id()))) {
                return false;
            }
        }
        log(self.foca.handle_data(packet.bytes, &mut self.runtime));
        self.resume_probing();
        true
    }

    pub(crate) fn handle_timer(&mut self, timer: Timer<Identity>) {
        log(self.foca.handle_timer(timer, &mut self.runtime));
    }

    /// Adds members that another node reports as live, until probes fail.
    pub(crate) fn apply_live(&mut self, live: impl Iterator<Item = Identity>) {
        let room = (2 * MEMBERS_MAX).saturating_sub(self.foca.iter_membership_state().len());
        let me = self.me();
        let live = live.filter(|identity| identity.address != me.address).take(room);
        log(self.foca.apply_many(live.map(Member::alive), true, &mut self.runtime));
    }

    /// Announces this node to a member.
    pub(crate) fn announce(&mut self, to: Identity) {
        log(self.foca.announce(to, &mut self.runtime));
    }

    /// Changes the identity of this node.
    pub(crate) fn change_identity(&mut self, me: Identity) {
        log(self.foca.change_identity(me, &mut self.runtime));
        self.resume_probing();
    }

    /// After a change, foca does not probe until it receives an update. An empty update restarts the probes, so that silent
    /// members are detected.
    fn resume_probing(&mut self) {
        log(self.foca.apply_many(std::iter::empty(), false, &mut self.runtime));
    }

    /// Leaves.
    pub(crate) fn leave(&mut self) {
        log(self.foca.leave_cluster(&mut self.runtime));
    }

    /// Takes the requested actions.
    pub(crate) fn take_actions(&mut self, now: Duration) -> GossipActions {
        let mut actions = GossipActions::default();
        while let Some((to, bytes)) = self.runtime.to_send() {
            actions.send.push((to.address, packet::gossip(&bytes)));
        }
        while let Some(timer) = self.runtime.to_schedule() {
            actions.timers.push(timer);
        }
        while let Some(notification) = self.runtime.to_notify() {
            actions.changed = true;
            match notification {
                OwnedNotification::MemberUp(identity) | OwnedNotification::Rename(_, identity) => {
                    actions.up.push(identity);
                }
                OwnedNotification::Rejoin(_) => {
                    self.renewed_at = Some(now);
                    actions.renewed = true;
                }
                OwnedNotification::Defunct => actions.defunct = true,
                OwnedNotification::MemberDown(_) | OwnedNotification::Active | OwnedNotification::Idle => {}
            }
        }
        actions
    }
}

/// Errors of foca concern outdated or misdirected packets, and are ignored.
fn log(result: Result<(), foca::Error>) {
    if let Err(error) = result {
        tracing::debug!(?error, "gossip packet ignored");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bucksaw_env::sim;
    use bucksaw_record::{Id, Millis, Producer};
    use foca::{Codec as _, Header};

    use crate::packet::Packet;
    use crate::timers::Timers;

    fn identity(number: u8) -> Identity {
        let incarnation = Id::new(Millis(1_000), Producer::new(number.into()), 0);
        Identity { node: incarnation, incarnation, address: ([10, 0, 0, number], 7_659).into() }
    }

    fn gossip() -> Gossip {
        Gossip::new(identity(1), &Config::new("/data".into()), Arc::new(sim::Entropy::seeded(1)))
    }

    fn datagram(dst: Identity, message: Message<Identity>, members: &[Member<Identity>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let header = Header { src: identity(2), src_incarnation: 0, dst, message };
        PacketCodec.encode_header(&header, &mut bytes).unwrap();
        if !members.is_empty() {
            bytes.extend(u16::try_from(members.len()).unwrap().to_be_bytes());
            members.iter().for_each(|member| PacketCodec.encode_member(member, &mut bytes).unwrap());
        }
        packet::gossip(&bytes)
    }

    fn receive(gossip: &mut Gossip, datagram: &[u8], ms: u64) -> bool {
        let Ok(Packet::Gossip(packet)) = Packet::parse(datagram) else { panic!("not a gossip packet") };
        gossip.receive(&packet, Duration::from_millis(ms))
    }

    #[test]
    fn refutations_are_rate_limited() {
        let mut gossip = gossip();
        let mut renewed = 0;
        for ms in 0..2_000 {
            let dead = datagram(gossip.me(), Message::TurnUndead, &[]);
            assert!(receive(&mut gossip, &dead, ms));
            renewed += u32::from(gossip.take_actions(Duration::from_millis(ms)).renewed);
        }
        assert_eq!(renewed, 10);
    }

    #[test]
    fn probing_continues_after_an_identity_change() {
        let check = |rename: fn(&mut Gossip)| {
            let (mut gossip, mut timers) = (gossip(), Timers::new());
            gossip.apply_live([identity(2)].into_iter());
            rename(&mut gossip);
            for ms in 0..5_000 {
                let now = Duration::from_millis(ms);
                while let Some(timer) = timers.due(now) {
                    gossip.handle_timer(timer);
                }
                gossip.take_actions(now).timers.into_iter().for_each(|(after, timer)| timers.add(now + after, timer));
            }
            assert_eq!(gossip.down_members(), [identity(2)]);
        };
        check(|_| {});
        check(|gossip| {
            let dead = datagram(gossip.me(), Message::TurnUndead, &[]);
            assert!(receive(gossip, &dead, 0));
        });
        check(|gossip| {
            gossip
                .change_identity(Identity { incarnation: Id::new(Millis(2_000), Producer::new(1), 0), ..gossip.me() });
        });
    }

    #[test]
    fn invented_members_are_bounded() {
        let mut gossip = gossip();
        let invented =
            |number: u16| Identity { address: ([10, 1, (number >> 8) as u8, number as u8], 1).into(), ..identity(3) };
        let mut refused = 0;
        for batch in 0..300 {
            let members: Vec<_> = (0..10).map(|at| Member::alive(invented(batch * 10 + at))).collect();
            let datagram = datagram(gossip.me(), Message::Gossip, &members);
            refused += u32::from(!receive(&mut gossip, &datagram, 0));
            gossip.take_actions(Duration::ZERO);
        }
        assert!(gossip.live_members().len() <= 2 * MEMBERS_MAX + 1 && refused >= 100, "{refused} refused");
        let known = datagram(gossip.me(), Message::Gossip, &[Member::down(invented(5))]);
        assert!(receive(&mut gossip, &known, 0));
        assert_eq!(gossip.down_members(), [invented(5)]);
    }
}
