//! The unit that limits per client count.

use std::net::{IpAddr, Ipv6Addr};

/// The network of a client: an IPv4 address, or the IPv6 network of 64 bits that one host commonly has.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_host_are_one_network() {
        let network = |text: &str| client_network(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::2:3:4:5"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
    }
}
