// ferry: the lifetime protocol between one exporter and its many importers. Pure: structs, bytes and state machines.
//
// An exporter publishes buffers under names and must know when it may write one again, and when it may free it. An
// importer
//   attach       asks for the newest publication of a name; the grant is a lease on one buffer, with its descriptor,
//   and with its file
//                descriptors the first time. Until it acknowledges, it *reads* the buffer; until it releases, it
//                *holds* (maps) it;
//   acknowledge  has read: the buffer may be written again, the mapping stays (frames of a stream, at a message each);
//   release      has unmapped: the buffer may be freed;
//   ping         is alive: without a sign of life for the length of a lease, what it reads is condemned. The exporter
//   is told, so that it may
//                take another buffer. Nothing else happens to the old one: a stopped process may go on reading it at
//                any time.
// What an importer read and held ends without its word only when its process has exited and its socket is closed.
//
// The descriptor is opaque. The transport keeps messages whole and in order, and says when either side ends:
// server.hpp, client.hpp.
#pragma once

#include <ferry/ipc/exporter.hpp>
#include <ferry/ipc/importer.hpp>
#include <ferry/ipc/message.hpp>
#include <ferry/ipc/registry.hpp>
