// ferry: columns of one type in sequence, as Arrow's streams transport them.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/arrow/device.hpp>
#include <ferry/arrow/events.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/column/column.hpp>

#include <cstdint>
#include <source_location>
#include <span>
#include <utility>
#include <vector>  // the chunks

namespace FERRY_NAMESPACE {

/// Chunks of one type, such as the record batches of a table: any number of columns in sequence, which are not joined.
/// Copies share the memory.
///
/// ```cpp
/// ferry::chunked const table = ferry::from_arrow(&stream);  // owns the chunks
/// for (ferry::column const& batch : table.chunks()) process(batch);
/// ferry::to_arrow(table, &other);                           // exports them, without a copy
/// ```
class chunked {
   public:
    /// No chunks, of type null.
    chunked() = default;
    /// One chunk.
    ///
    /// \param c  column
    /// \throws std::bad_alloc  when an allocation fails
    explicit chunked(column const& c, std::source_location where = std::source_location::current())
        : chunked{std::vector<column>{c}, c, where} {}
    /// Chunks of a type. A field is nullable in `type()` if it is in a chunk.
    ///
    /// \param chunks  columns
    /// \param type    column of the type of the chunks; only its type is used
    /// \throws error           errc::argument: a chunk of another type;  overflow: the length exceeds 63 bits
    /// \throws std::bad_alloc  when an allocation fails
    FERRY_INLINE chunked(std::vector<column> chunks, column const& type,
                         std::source_location where = std::source_location::current());

    /// \return  an empty column of the type of the chunks
    [[nodiscard]] column const& type() const noexcept { return type_; }
    [[nodiscard]] std::span<column const> chunks() const noexcept { return chunks_; }
    /// \return  number of items of all chunks
    [[nodiscard]] std::int64_t length() const noexcept {
        std::int64_t sum = 0;
        for (auto const& c : chunks_) sum += c.length();
        return sum;
    }

   private:
    std::vector<column> chunks_;
    column type_;
};

/// Reads all chunks of a stream of columns in host memory, without joining them.
///
/// \param stream  stream; released after the last chunk or an error of a chunk, unchanged if its schema is not read
/// \return        chunks
/// \throws error, std::bad_alloc  as arrow_reader
[[nodiscard]] FERRY_INLINE chunked from_arrow(ArrowArrayStream* stream,
                                              std::source_location where = std::source_location::current());

/// Reads all chunks of a stream of columns on devices, without joining them. Each chunk is imported as from_arrow
/// imports an ArrowDeviceArray: work that is queued on `on` later runs after the events of all chunks.
///
/// Source: "Device stream" of the Arrow C device data interface.
///
/// \param stream  stream; released after the last chunk or an error of a chunk, unchanged if its schema is not read
/// \param b       back end that waits for the events
/// \param on      stream that reads the chunks
/// \return        chunks
/// \throws error           errc::device: a chunk on another type of device than the stream;  as arrow_reader and as
///                         from_arrow of an ArrowDeviceArray
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] FERRY_INLINE chunked from_arrow(ArrowDeviceArrayStream* stream, arrow_events_ref b, stream_token on = {},
                                              std::source_location where = std::source_location::current());
/// Overload for chunks in host memory, which need no back end.
///
/// \param stream  stream; as above
/// \return        chunks
/// \throws error           errc::no_backend: not in host memory;  as above
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] FERRY_INLINE chunked from_arrow(ArrowDeviceArrayStream* stream,
                                              std::source_location where = std::source_location::current());

/// Exports chunks in host memory as an ArrowArrayStream, without a copy. The stream owns each chunk until the consumer
/// reads it.
///
/// Source: "Structure definition" and "Error codes" of the Arrow C stream interface.
///
/// \param c    chunks; the stream shares their memory
/// \param out  stream to write; unchanged on failure
/// \throws error           errc::not_accessible: the host cannot read a chunk;  argument: `out` is null
/// \throws std::bad_alloc  when an allocation fails
FERRY_INLINE void to_arrow(chunked const& c, ArrowArrayStream* out,
                           std::source_location where = std::source_location::current());

/// Exports chunks on devices of one type as an ArrowDeviceArrayStream, without a copy. Each chunk is exported as
/// to_arrow exports an ArrowDeviceArray, before this function returns: if `ready_on` names a stream, each has an event
/// after the work that is queued there now.
///
/// \param c         chunks; the stream shares their memory
/// \param out       stream to write; unchanged on failure
/// \param b         back end that records the events
/// \param ready_on  stream whose queued work writes the chunks, if any
/// \throws error           errc::device: chunks on different types of devices;  argument: `out` is null;  as to_arrow
///                         of an ArrowDeviceArray
/// \throws std::bad_alloc  when an allocation fails
FERRY_INLINE void to_arrow(chunked const& c, ArrowDeviceArrayStream* out, arrow_events_ref b,
                           stream_token ready_on = {}, std::source_location where = std::source_location::current());
/// Overload for chunks whose data is ready, without events.
///
/// \param c    chunks; the stream shares their memory
/// \param out  stream to write; unchanged on failure
/// \throws error           errc::device: chunks on different types of devices, or children on different devices;
///                         argument: `out` is null
/// \throws std::bad_alloc  when an allocation fails
FERRY_INLINE void to_arrow(chunked const& c, ArrowDeviceArrayStream* out,
                           std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/arrow/detail/chunked.ipp>
#endif
