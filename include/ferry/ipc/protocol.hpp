// ferry: the lifetime protocol between one exporter and its importers, as structs, bytes and state machines.
//
// An exporter publishes buffers under names, and must know when it may write to a buffer again and when it may free it.
// An importer sends:
//   attach       to request the newest publication of a name. The grant is a lease on one buffer, with its descriptor
//                and, the first time, its file descriptors. The importer *reads* the buffer until it acknowledges, and
//                *holds* (maps) it until it releases;
//   acknowledge  after it has read the buffer, which may then be written again; the mapping stays, so that a frame of a
//                stream costs one message;
//   release      after it has unmapped the buffer, which may then be freed;
//   ping         to renew its leases. Without a message during the length of a lease, the buffers that it reads are
//                condemned: the exporter is notified, and may use other buffers. The condemned ones stay in use,
//                because a stopped process may continue to read them.
// Buffers that an importer neither acknowledges nor releases are freed only when its process has exited and its socket
// is closed.
//
// Descriptors are opaque bytes. The transport preserves message boundaries and order, and reports the end of either
// side: server.hpp, client.hpp.
#pragma once

#include <ferry/ipc/exporter.hpp>
#include <ferry/ipc/importer.hpp>
#include <ferry/ipc/message.hpp>
