// ferry: the descriptor of memory that another process shares. Plain values; `wire::check` checks them.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/flags.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>  // a descriptor owns its strings
#include <variant>
#include <vector>  // as above

/// The descriptor of shared memory, as a struct, as bytes and as JSON. The functions are pure and open no memory.
///
/// `fields` of a struct calls `f(name, field)` for each field, in the order of the binary form. If a function is passed
/// in place of a field, it makes these calls for the members of a nested JSON object.
namespace FERRY_NAMESPACE::wire {

/// The method of opening an allocation.
enum class memory_kind : std::uint8_t {
    none,         ///< nothing to open; the length is 0
    host_shared,  ///< a POSIX shared-memory segment, opened by its name; a memfd requires its file descriptor
    cuda_legacy,  ///< a handle of cudaIpcGetMemHandle
    cuda_pool,    ///< a pointer exported from a memory pool; requires the file descriptor of the pool
};

/// Returns the name of a kind, as in JSON and in error messages.
///
/// \param kind  kind of memory
/// \return      "host_shared" for memory_kind::host_shared; "unknown" for other values; static storage
[[nodiscard]] constexpr char const* name(memory_kind kind) noexcept {
    constexpr char const* names[] = {"none", "host_shared", "cuda_legacy", "cuda_pool"};
    auto const i = static_cast<std::size_t>(kind);
    return i < sizeof names / sizeof names[0] ? names[i] : "unknown";
}

/// The UUID of a device, or the id of a boot.
using uuid = std::array<std::uint8_t, 16>;

/// The exporting process. The process id is unique within a pid namespace and a boot.
struct origin {
    std::uint32_t pid = 0;            ///< process id; 0 if unknown
    std::uint64_t pid_namespace = 0;  ///< the inode of /proc/PID/ns/pid
    uuid boot_id{};                   ///< /proc/sys/kernel/random/boot_id

    static constexpr void fields(auto& o, auto& f) {
        f("pid", o.pid), f("pid_namespace", o.pid_namespace), f("boot_id", o.boot_id);
    }
    friend bool operator==(origin const&, origin const&) = default;
};

/// An allocation, and the range of it that is shared.
struct memory {
    memory_kind kind = memory_kind::none;
    device_type type = device_type::cpu;
    uuid device{};                    ///< UUID of the GPU, since device ids differ between processes; zero on the host
    std::uint64_t id = 0;             ///< identifies the memory; never reused by its exporter
    std::uint64_t allocation = 0;     ///< size of the allocation, in bytes
    std::uint64_t offset = 0;         ///< offset of the range in the allocation, in bytes
    std::uint64_t length = 0;         ///< size of the range, in bytes
    std::string name{};               ///< name of the control segment; for host_shared, it also contains the data
    std::vector<std::byte> handle{};  ///< 64 bytes for the CUDA kinds, otherwise empty
    std::vector<std::byte> ready{};   ///< handle of the event to wait for, 64 bytes; empty if the data is ready

    static constexpr void fields(auto& m, auto& f) {
        f("kind", m.kind), f("device", [&](auto& g) { g("type", m.type), g("uuid", m.device); });
        f("id", m.id), f("allocation", m.allocation), f("offset", m.offset), f("length", m.length);
        f("name", m.name), f("handle", m.handle), f("ready", m.ready);
    }
    friend bool operator==(memory const&, memory const&) = default;
};

/// A strided array in the range of one memory.
struct tensor {
    data_type dtype{};
    std::vector<std::int64_t> shape{};
    std::vector<std::int64_t> strides{};  ///< in elements, of any sign; empty for a compact row-major layout
    std::int64_t byte_offset = 0;         ///< offset of the first element in the range
    ferry::flags flags{};
    std::uint32_t memory = 0;  ///< index in descriptor::memories

    static constexpr void fields(auto& t, auto& f) {
        auto& type = t.dtype;
        f("dtype", [&](auto& g) { g("code", type.code), g("bits", type.bits), g("lanes", type.lanes); });
        f("memory", t.memory), f("byte_offset", t.byte_offset), f("flags", t.flags);
        f("shape", t.shape), f("strides", t.strides);
    }
    friend bool operator==(tensor const&, tensor const&) = default;
};

/// The memory index of an absent buffer, such as the validity of a column without nulls.
inline constexpr std::uint32_t no_memory = 0xffff'ffff;

/// A buffer: bytes in the range of one memory.
struct slice {
    std::uint32_t memory = no_memory;  ///< index in descriptor::memories, or no_memory
    std::uint64_t offset = 0;          ///< offset in the range, in bytes
    std::uint64_t length = 0;          ///< size, in bytes

    static constexpr std::size_t least_size = 20;  ///< size in the binary form, in bytes
    static constexpr void fields(auto& s, auto& f) {
        f("memory", s.memory), f("offset", s.offset), f("length", s.length);
    }
    friend bool operator==(slice const&, slice const&) = default;
};

/// A node of a column: the members of ArrowSchema and ArrowArray, and the sizes of the buffers.
struct node {
    std::string format{};
    std::string name{};
    std::vector<std::byte> metadata{};  ///< as in ArrowSchema, but little-endian; empty for none
    std::int64_t length = 0;            ///< number of items
    std::int64_t null_count = -1;       ///< number of nulls; -1 if unknown
    std::int64_t offset = 0;            ///< index of the first item in the buffers
    std::int64_t flags = 0;             ///< flags of ArrowSchema
    std::vector<slice> buffers{};
    std::vector<node> children{};
    std::vector<node> dictionary{};  ///< at most one node

    // The children and the dictionary are not among the fields.
    static constexpr void fields(auto& n, auto& f) {
        f("length", n.length), f("null_count", n.null_count), f("offset", n.offset), f("flags", n.flags);
        f("format", n.format), f("name", n.name), f("metadata", n.metadata), f("buffers", n.buffers);
    }
    friend bool operator==(node const&, node const&) = default;
};

/// Tensors and columns in the same memories.
using list = std::vector<std::variant<tensor, node>>;

/// The major version of the format. A reader accepts every minor version of its major version.
inline constexpr std::uint16_t major_version = 2;
/// The minor version of the format. Each addition that older readers can skip increases it.
inline constexpr std::uint16_t minor_version = 1;

/// A tensor, a column, or a list of both in shared memory.
struct descriptor {
    std::uint16_t major = major_version;
    std::uint16_t minor = minor_version;
    origin from{};
    std::vector<memory> memories{};
    std::variant<tensor, node, list> root{};

    friend bool operator==(descriptor const&, descriptor const&) = default;
};

}  // namespace FERRY_NAMESPACE::wire
