//! Sources of connections for the servers of the provider.

use std::io;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};

/// A source of connections: a socket, or pipes within a process.
pub trait Listener: Send {
    /// An accepted connection.
    type Connection: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Returns the next connection.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// If no connection can be accepted now. The server logs the error and calls again after 100
    /// ms.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Connection>> + Send;
}

impl Listener for TcpListener {
    type Connection = tokio::net::TcpStream;

    async fn accept(&mut self) -> io::Result<Self::Connection> {
        TcpListener::accept(self).await.map(|(stream, _)| stream)
    }
}
