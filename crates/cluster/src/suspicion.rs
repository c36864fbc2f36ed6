//! A word to somebody who is suspected, so that it may contradict.
//!
//! Foca spreads a suspicion some ten times to whom chance picks, and who is suspected contradicts when it hears of it. It
//! need not hear: then whoever suspects it first takes it for down, and tells it. But those who suspect it by hearsay do
//! nothing of the kind, nor does the first one when it was itself taken for dead meanwhile, or lost everybody: it goes on under
//! another name, and forgets what it was about to do. Probes that are answered end no suspicion, only a contradiction does.
//! So a node would be suspected for ever. Therefore whoever suspects somebody says so to its face, again and again: a probe
//! that carries the suspicion. The answer contradicts. (Lifeguard calls it the buddy system: Dadgar, Phillips, Currey,
//! "Lifeguard: SWIM-ing with situational awareness".)

use foca::{Codec as _, Header, Member, Message};

use crate::codec::PacketCodec;
use crate::identity::Identity;
use crate::packet;

/// A probe of somebody who is suspected, from `me`, that says so; none if it cannot be written, which it always can.
///
/// Its number is one that may be that of a probe of foca: then its answer counts for that one as well, and rightly so.
pub(crate) fn suspicion_notice(me: Identity, suspect: &Member<Identity>) -> Option<Vec<u8>> {
    // How often this node has contradicted is foca's secret. None says nothing new to anybody.
    let header = Header { src: me, src_incarnation: 0, dst: *suspect.id(), message: Message::Ping(0) };
    let mut bytes = Vec::new();
    PacketCodec.encode_header(&header, &mut bytes).ok()?;
    bytes.extend(1_u16.to_be_bytes());
    PacketCodec.encode_member(suspect, &mut bytes).ok()?;
    Some(packet::gossip(&bytes))
}
