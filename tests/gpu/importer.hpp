// A second process, running this program, which opens memory that the test shares and executes orders.
#pragma once

#include <support/patience.hpp>

#include <ferry/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

namespace support {

/// Orders to an importer; each reply has an errc (0: success) and bytes.
enum class order_of_work : std::uint32_t {
    open,     ///< payload: device or -1, file descriptor or -1 (both int32), a descriptor's bytes; answers the address
    receive,  ///< waits for the ready event on a stream and queues a copy to the host; does not wait for either
    finish,   ///< waits for the stream; answers what the copy brought
    overwrite,     ///< queues a memset of the whole range with the first byte of the payload
    hold,          ///< closes a gate on the stream
    release,       ///< opens it
    done,          ///< marks the stream; answers the event's handle
    done_idle,     ///< marks a stream on which there is nothing; answers the event's handle
    open_again,    ///< opens the same memory once more, and keeps that open
    let_go,        ///< closes the mapping
    let_go_later,  ///< closes the mapping on another thread, and comes back
    keep_again,    ///< goes on with what was opened once more
    place,         ///< answers the device's number here, and the bytes that the driver knows there (int64; -1: none)
    peek,          ///< payload: a distance from the opened range, a count (int64); answers the bytes there
    attach,        ///< payload: as of `open`; attaches the tensor on a stream of its own, through a session
    elements,      ///< answers the elements of the tensor, compact
    copy_later,  ///< queues a copy of the tensor's memory to the host, and comes back; `finish` answers what it brought
    fill_later,  ///< queues a memset of the tensor's memory with the first byte of the payload
    drop,        ///< drops the tensor
    drop_later,  ///< drops the tensor on another thread, and comes back
    is_gone,     ///< whether that thread has ended: one byte
    look,        ///< payload: a bare handle, byte offset, count, step (64 bits each); answers the floats there
    attach_files,    ///< payload: as of `open`; attaches the tensor with the files that were passed, and closes these
    rounds,          ///< payload: as of `open`; attaches, reads and drops until it hears the next order
    usage,           ///< drops what no tensor uses; answers its `ipc_usage`
    share,           ///< payload: a byte; shares a MiB of it, and answers the descriptor's bytes
    share_held,      ///< the same, behind a gate
    share_attached,  ///< shares the attached tensor without a copy, and answers the descriptor's bytes
    close_share,     ///< closes that share
    share_rounds,    ///< shares and closes until it hears the next order

    open_by_other,    ///< opens the same memory by another back end, and keeps that open as `open_again` does
    attach_thousand,  ///< payload: as of `open`; attaches and drops a thousand times, and keeps no mapping in between
    attach_columns,  ///< payload: as of `open`; attaches the column on a stream of its own, through a session, with the
                     ///< files that were passed, and closes these; answers the devices of its children as text
    frame,  ///< payload: handles of a mask and of doubles; number of doubles, bytes of the mask, offset and bytes
            ///< of the doubles (64 bits each); attaches a table of them
    frame_of_one,   ///< payload: a handle of 3 int32 at 64, offsets at 128 and 5 bytes of text at 192; attaches a table
    rows,           ///< answers the rows of the column as text, and drops it
    share_columns,  ///< payload: a byte for each GPU; shares a table of 50 rows, with a column of them there, without a
                    ///< copy; answers the descriptor's bytes
    follow,      ///< payload: directory and name of a topic, in two lines; or of one whose file was passed first, none
    next_frame,  ///< attaches the next frame on a stream of its own, with the files that were passed; answers its
                 ///< generation
    begin_capture,  ///< captures a stream that nothing else uses, so that every thread's calls count
    end_capture,    ///< ends that; answers whether it stayed valid: one byte
};

/// Resources of a process, and its accesses to memory and events of others since its start.
struct ipc_usage {
    std::int64_t files;
    std::int64_t mappings;  ///< of ferry's segments
    std::int64_t opened, closed, events_opened;
};
[[nodiscard]] ipc_usage usage_here();

struct answer {
    ferry::errc code = ferry::errc::ok;
    std::vector<std::byte> bytes;
};
[[nodiscard]] inline std::string text_of(answer const& a) {
    return {reinterpret_cast<char const*>(a.bytes.data()), a.bytes.size()};
}

/// Starts the process; the destructor ends it, by SIGKILL if necessary.
class importer {
   public:
    /// `visible`: its CUDA_VISIBLE_DEVICES; null: that of this process.
    explicit importer(char const* visible = nullptr);
    importer(importer const&) = delete;
    importer& operator=(importer const&) = delete;
    ~importer();

    answer tell(order_of_work what, std::span<std::byte const> payload = {});
    answer open(std::span<std::byte const> descriptor, std::int32_t device = -1, int file = -1);
    answer attach(std::span<std::byte const> descriptor, std::int32_t device = -1, int file = -1);
    answer attach_files(std::span<std::byte const> descriptor, std::int32_t device, std::span<int const> files);
    answer attach_columns(std::span<std::byte const> descriptor, std::int32_t device = -1,
                          std::span<int const> files = {});
    /// Sends an order without waiting for the reply.
    void begin(order_of_work what, std::span<std::byte const> payload = {});
    answer hear();
    ipc_usage usage();
    void kill();
    void signal(int which);
    /// Sends a file of this process, or -1; `open` takes the number of that file.
    [[nodiscard]] bool passes(int file);

   private:
    answer tell_where(order_of_work what, std::span<std::byte const> descriptor, std::int32_t device, int file = -1);
    void pass(std::span<int const> files);
    bool wait();           ///< waits for its end; false: it hangs
    std::string ending();  ///< how it ended

    int socket_ = -1, status_ = 0;
    pid_t pid_ = -1;  // -1: it has ended
};

/// The importer's side: serves a socket until it is closed. Returns the exit status.
int serve_as_importer(int socket);

/// Prints floats that another program shares by a handle, given in hexadecimal: of cudaMalloc memory, or, with the
/// number of an open file, of that pool. Returns the exit status.
int inspect_memory(char const* handle, char const* offset, char const* count, char const* pool);

}  // namespace support
