//! A relay as some are (fault 5): it delivers everything with `live` as false.

use futures_util::{SinkExt, StreamExt};
use prost::Message as _;
use skald_relay_common::pb;
use skald_relay_common::pb::relay_frame::Frame;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

/// Stands before the relay at `address`; gives the URL to use instead.
pub async fn before(address: std::net::SocketAddr) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
    let url = format!("ws://{}/v1/ws", listener.local_addr().expect("address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(carry(stream, address));
        }
    });
    url
}

async fn carry(stream: TcpStream, address: std::net::SocketAddr) -> Option<()> {
    let mut path = String::new();
    // The library's own type for a refusal is large; nothing is refused here.
    #[allow(clippy::result_large_err)]
    let look = |request: &Request, response: Response| {
        path = request.uri().path().to_owned();
        Ok(response)
    };
    let device = tokio_tungstenite::accept_hdr_async(stream, look).await.ok()?;
    let url = format!("ws://{address}{path}");
    let relay = TcpStream::connect(address).await.ok()?;
    let (relay, _) = tokio_tungstenite::client_async(url, relay).await.ok()?;
    let (mut to_device, mut from_device) = device.split();
    let (mut to_relay, mut from_relay) = relay.split();
    let up = async {
        // Either library answers Pings by itself; Pongs belong to the connection they are of.
        while let Some(Ok(message)) = from_device.next().await {
            if message.is_binary() && to_relay.send(message).await.is_err() {
                break;
            }
        }
    };
    let down = async {
        while let Some(Ok(message)) = from_relay.next().await {
            let Message::Binary(bytes) = message else { continue };
            let bytes = if path.ends_with("/ws") { unmark(bytes.into()) } else { bytes.into() };
            if to_device.send(Message::Binary(bytes.into())).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
    let _ = to_device.close().await;
    let _ = to_relay.close().await;
    Some(())
}

fn unmark(bytes: Vec<u8>) -> Vec<u8> {
    let mut frame = pb::RelayFrame::decode(&bytes[..]).expect("a frame");
    if let Some(Frame::Message(message)) = &mut frame.frame {
        message.live = false;
    }
    frame.encode_to_vec()
}
