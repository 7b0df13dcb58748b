//! Ports: to what is listed, and to nothing else.

use std::time::Duration;

use skald_payloads::streams::{FaultCode, NAME, TCP, TcpReply};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;
use crate::access::Allowed;
use crate::lines::Port;
use crate::settings::Ports;
use crate::surroundings::Surroundings;
use crate::tcp::TcpHandler;

fn handler(port: u16, own: Option<std::net::SocketAddr>) -> Arc<TcpHandler> {
    let ports = Ports {
        ports: vec![Port { name: "dev".into(), host: "127.0.0.1".into(), port }],
        devices: Allowed::default(),
        beyond_loopback: false,
        connections: 3,
        connect: Duration::from_secs(10),
        idle: Duration::from_secs(60),
    };
    let around = Surroundings { data: Default::default(), listen: own };
    Arc::new(TcpHandler::new(ports, around, CancellationToken::new()))
}

fn dev() -> StreamOffer {
    offer(TCP, &[(NAME, "dev")])
}

#[tokio::test]
async fn a_device_says_a_name_and_an_address_counts_for_nothing() {
    let handler = handler(1, None);
    assert!(handler.check(&dev()).is_ok());
    for headers in
        [&[][..], &[(NAME, "127.0.0.1:22")], &[(NAME, "DEV")], &[("host", "10.0.0.1"), ("port", "22")]]
    {
        assert!(handler.check(&offer(TCP, headers)).is_err(), "{headers:?}");
    }
}

#[tokio::test]
async fn each_direction_ends_by_itself_and_carries_every_byte() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let handler = handler(listener.local_addr().unwrap().port(), None);
    let mut device = Device::open(handler, dev());
    let (mut server, _) = listener.accept().await.unwrap();
    assert_eq!(device.hear::<TcpReply>().await, TcpReply::Open);
    let all: Vec<u8> = (0..=255).cycle().take(500_000).collect();
    device.send(&all).await;
    frames::put(&mut device.to, &frames::end()).await.unwrap();
    let mut read = Vec::new();
    server.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, all);
    // The device has finished; the answer comes all the same.
    tokio::spawn(async move { server.write_all(&all).await.unwrap() });
    assert_eq!(device.data(500_000).await, read);
    assert_eq!(device.from.next().await.unwrap(), Some(FrameKind::End));
    device.leave().await;
}

#[tokio::test]
async fn a_port_that_does_not_answer_and_skalds_own_are_refused_in_words() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap();
    let mut device = Device::open(handler(own.port(), Some(own)), dev());
    let TcpReply::Error(fault) = device.hear().await else { panic!() };
    assert_eq!(fault.code, FaultCode::NotPermitted);
    drop(listener);
    let mut device = Device::open(handler(own.port(), None), dev());
    let TcpReply::Error(fault) = device.hear().await else { panic!() };
    assert_eq!(fault.code, FaultCode::Unreachable);
}

#[tokio::test]
async fn a_device_that_is_cut_off_cuts_the_port_off_and_gives_its_place_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let handler = handler(listener.local_addr().unwrap().port(), None);
    let mut servers = Vec::new();
    let mut devices = Vec::new();
    for _ in 0..2 {
        let mut device = Device::open(handler.clone(), dev());
        servers.push(listener.accept().await.unwrap().0);
        assert_eq!(device.hear::<TcpReply>().await, TcpReply::Open);
        devices.push(device);
    }
    let mut third = Device::open(handler.clone(), dev());
    assert!(matches!(third.hear().await, TcpReply::Error(f) if f.code == FaultCode::Busy));
    for device in devices {
        device.leave().await;
    }
    for mut server in servers {
        assert_eq!(server.read(&mut [0; 1]).await.unwrap_or(0), 0);
    }
    let mut again = Device::open(handler, dev());
    let _server = listener.accept().await.unwrap();
    assert_eq!(again.hear::<TcpReply>().await, TcpReply::Open);
}

#[tokio::test]
async fn silence_ends_a_connection() {
    tokio::time::pause();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let handler = handler(listener.local_addr().unwrap().port(), None);
    let mut device = Device::open(handler, dev());
    let _server = listener.accept().await.unwrap();
    assert_eq!(device.hear::<TcpReply>().await, TcpReply::Open);
    assert_eq!(device.from.next().await.unwrap(), None);
    device.serving.await.unwrap();
}
