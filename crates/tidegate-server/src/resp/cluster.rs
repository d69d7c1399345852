//! CLUSTER, for clients in cluster mode: it describes one node, which holds every slot. `dispatch.rs` calls it. The node is
//! at the address that the client has reached, or at the address of `--resp-announce`.

use std::hash::Hasher;
use std::net::{Ipv4Addr, SocketAddr};

use siphasher::sip128::{Hasher128, SipHasher13};
use tidegate::slot_of;

use super::args::Args;
use super::reply::RespReply;
use super::session::Session;
use super::state::ListenerAddress;
use super::table::Command;
use super::usage::help;

/// The last of the slots, which begin with 0.
const LAST_SLOT: u16 = 16_383;

/// The address of the node for the client of a connection.
fn address(session: &Session) -> ListenerAddress {
    if let Some(announced) = &session.state.announced {
        return announced.clone();
    }
    // A connection without an address has broken, and its replies are not read.
    let none = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    session.reached.address.unwrap_or(none).into()
}

/// The id of the node at an address: 40 hexadecimal digits, which are the same after a restart.
fn id(node: &ListenerAddress) -> String {
    // Clients compare ids by their text alone, so a short hash with zeros before it does as well as 160 random bits.
    let mut hasher = SipHasher13::new();
    hasher.write(node.host.as_bytes());
    hasher.write_u16(node.port);
    format!("{:040x}", hasher.finish128().as_u128())
}

/// `CLUSTER INFO|KEYSLOT key|MYID|NODES|SHARDS|SLOTS|HELP`.
pub(super) fn cluster(
    session: &Session,
    command: &Command,
    args: &Args<'_>,
    reply: &mut RespReply<'_>,
) {
    let node = address(session);
    match command.subcommand(args.word(1)).map(|subcommand| subcommand.name) {
        Some("slots") => slots(&node, reply),
        Some("shards") => shards(&node, session.reached.is_encrypted, reply),
        Some("nodes") => nodes(&node, reply),
        Some("info") => reply.verbatim(INFO),
        Some("myid") => reply.text(&id(&node)),
        Some("keyslot") => reply.integer(slot_of(args.word(2))),
        _ => help("CLUSTER", &HELP, reply),
    }
}

const INFO: &str = "cluster_state:ok\r\n\
                    cluster_slots_assigned:16384\r\n\
                    cluster_slots_ok:16384\r\n\
                    cluster_slots_pfail:0\r\n\
                    cluster_slots_fail:0\r\n\
                    cluster_known_nodes:1\r\n\
                    cluster_size:1\r\n\
                    cluster_current_epoch:0\r\n\
                    cluster_my_epoch:0\r\n\
                    cluster_stats_messages_sent:0\r\n\
                    cluster_stats_messages_received:0\r\n\
                    total_cluster_links_buffer_limit_exceeded:0\r\n";

const HELP: [&str; 6] = [
    "INFO|MYID",
    "    The state of the cluster, or the id of its node.",
    "NODES|SHARDS|SLOTS",
    "    The one node, which holds every slot, and its address.",
    "KEYSLOT key",
    "    The slot of a key.",
];

fn nodes(node: &ListenerAddress, reply: &mut RespReply<'_>) {
    let ListenerAddress { host, port } = node;
    let id = id(node);
    // The port of the bus between nodes is 0, because there is none.
    let line = format!("{id} {host}:{port}@0 myself,master - 0 0 0 connected 0-{LAST_SLOT}\n");
    reply.verbatim(&line);
}

fn slots(node: &ListenerAddress, reply: &mut RespReply<'_>) {
    // One range of slots: its first slot, its last slot and its only node.
    reply.array(1);
    reply.array(3);
    reply.integer(0);
    reply.integer(LAST_SLOT);
    reply.array(4);
    reply.text(&node.host);
    reply.integer(node.port);
    reply.text(&id(node));
    reply.map(0); // other addresses
}

fn shards(node: &ListenerAddress, is_encrypted: bool, reply: &mut RespReply<'_>) {
    // One shard: its ranges of slots as a flat array, and its nodes.
    reply.array(1);
    reply.map(2);
    reply.text("slots");
    reply.array(2);
    reply.integer(0);
    reply.integer(LAST_SLOT);
    reply.text("nodes");
    reply.array(1);
    reply.map(7);
    // Of the two ports that a node may have, the port that this client can use.
    reply.texts(&["id", &id(node), if is_encrypted { "tls-port" } else { "port" }]);
    reply.integer(node.port);
    reply.texts(&["ip", &node.host, "endpoint", &node.host]);
    reply.texts(&["role", "master", "replication-offset"]);
    reply.integer(0);
    reply.texts(&["health", "online"]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::reply::Proto;

    #[test]
    fn the_port_of_a_shard_has_the_name_of_its_kind() {
        let node = ListenerAddress { host: "::1".to_owned(), port: 6380 };
        for (is_encrypted, port) in [(false, "$4\r\nport\r\n"), (true, "$8\r\ntls-port\r\n")] {
            let mut out = Vec::new();
            shards(&node, is_encrypted, &mut RespReply::new(&mut out, Proto::Resp3));
            let came = String::from_utf8(out).unwrap();
            assert!(came.contains(&format!("{port}:6380\r\n$2\r\nip\r\n$3\r\n::1\r\n")), "{came}");
        }
    }

    #[test]
    fn an_address_is_written_as_its_clients_write_it_and_has_an_id_of_its_own() {
        let host = |at: &str| ListenerAddress::from(at.parse::<SocketAddr>().unwrap());
        let hosts = ["127.0.0.1:1", "[::ffff:127.0.0.1]:1", "[2001:db8::7]:1"].map(host);
        assert_eq!(hosts.each_ref().map(|at| &*at.host), ["127.0.0.1", "127.0.0.1", "2001:db8::7"]);
        let ids = hosts.each_ref().map(id);
        assert_eq!(ids[0], ids[1]);
        assert!(ids[0] != ids[2] && ids[0] != id(&host("127.0.0.1:2")));
        assert!(ids.iter().all(|id| id.len() == 40));
    }
}
