//! Suspicion notices: notify a suspected member directly, so that it can refute the suspicion.
//!
//! Foca sends a suspicion to about ten random members, and the suspected member refutes when it receives it. It may not receive
//! it. Then the node that suspected it first declares it down, but nodes that only received the suspicion do not, nor does the
//! first node if it has changed its incarnation meanwhile. An answered probe does not end a suspicion, only a refutation does.
//! So a member could stay suspect for ever. Therefore each node that suspects a member repeatedly sends it a probe that carries
//! the suspicion; the answer refutes it. (The buddy system of Lifeguard: Dadgar, Phillips, Currey, "Lifeguard: SWIM-ing with
//! situational awareness".)

use foca::{Codec as _, Header, Member, Message};

use crate::codec::PacketCodec;
use crate::identity::Identity;
use crate::packet;

/// A suspicion notice from `me` to a suspected member; `None` if it cannot be encoded, which does not happen.
///
/// Its number may equal that of a probe of foca. Then the answer also counts for that probe, which is right.
pub(crate) fn suspicion_notice(me: Identity, suspect: &Member<Identity>) -> Option<Vec<u8>> {
    // Foca does not expose the suspicion number of this node. 0 is never newer.
    let header = Header { src: me, src_incarnation: 0, dst: *suspect.id(), message: Message::Ping(0) };
    let mut bytes = Vec::new();
    PacketCodec.encode_header(&header, &mut bytes).ok()?;
    bytes.extend(1_u16.to_be_bytes());
    PacketCodec.encode_member(suspect, &mut bytes).ok()?;
    Some(packet::gossip(&bytes))
}
