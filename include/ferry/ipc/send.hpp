// ferry: bytes and file descriptors over a Unix socket of the application.
#pragma once

#include <ferry/ipc/unique_fd.hpp>

#include <chrono>
#include <cstddef>
#include <source_location>
#include <span>
#include <vector>  // owns the received bytes

namespace FERRY_NAMESPACE::ipc {

/// Limits of one `send` or `receive`.
struct transfer_limits {
    std::size_t bytes = std::size_t{1} << 20;  ///< maximum size of a message in bytes
    std::size_t files = 64;                    ///< maximum number of files; at most 253, the limit of the kernel
    std::chrono::milliseconds patience{2000};  ///< maximum duration of the call
};

/// A received message. Owns its files.
struct parcel {
    std::vector<std::byte> bytes;
    std::vector<unique_fd> files;
};

/// Sends a message: bytes, such as a descriptor, and files, such as `publisher::files`.
///
/// The socket is connected, of type SOCK_STREAM or SOCK_SEQPACKET, blocking or not; one thread at a time sends. On
/// SOCK_SEQPACKET, the message is one datagram. Returns when the kernel has the message, not when the peer has received
/// it; the files may be closed then. After an error within a message, the connection is shut down, because the peer
/// would take the next message for the rest of this one.
///
/// \param socket  socket; borrowed
/// \param bytes   content of the message; may be empty
/// \param files   open file descriptors; borrowed: the peer receives duplicates
/// \param limits  limits of the message and of the call
/// \throws error  errc::argument: a message beyond the limits, a descriptor that is not open, a socket of another type,
///                or a datagram larger than SO_SNDBUF; errc::busy: the peer has not received enough in time;
///                errc::exporter_gone: the peer has closed the socket; errc::out_of_memory: too many files in sockets
FERRY_INLINE void send(int socket, std::span<std::byte const> bytes, std::span<int const> files,
                       transfer_limits const& limits = {},
                       std::source_location where = std::source_location::current());

/// Receives a message that the peer has sent with `send`; one thread at a time receives.
///
/// On failure, all received files are closed. After an error within a message, the connection is shut down; close the
/// socket. Sockets among the files are refused, because closing one may wait (SO_LINGER). Closing a file of a file
/// system that the peer serves may wait as well, so receive only from a peer that may delay this process (SO_PEERCRED).
///
/// \param socket  socket, as for `send`; borrowed
/// \param limits  limits of the message and of the call; no more memory than this is allocated
/// \return        content of the message, and its files, with close-on-exec
/// \throws error  errc::bad_descriptor: not a message of `send`, a message beyond the limits, or one without the files
///                that it states; errc::busy: no complete message in time; errc::exporter_gone: the peer has closed the
///                socket; errc::out_of_memory: too many open files; errc::argument: a socket of another type
/// \throws std::bad_alloc
[[nodiscard]] FERRY_INLINE parcel receive(int socket, transfer_limits const& limits = {},
                                          std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE::ipc

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/ipc/detail/send.ipp>
#endif
