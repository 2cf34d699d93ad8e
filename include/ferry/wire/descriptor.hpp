// ferry: what one process tells another about memory that it shares: a descriptor of a tree of buffers. Values only: no
// handle is opened here, and nothing has been checked before `wire::check` has.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/flags.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>  // a descriptor owns what it says: it outlives the text that it came in
#include <variant>
#include <vector>  // as above

/// The descriptor of shared memory and its two forms on the wire, bytes and JSON. Pure functions.
namespace ferry::inline FERRY_ABI_NAMESPACE::wire {
namespace detail {

/// The name of a field in JSON, and whether JSON may leave it out, or have null for an empty list.
///
/// `fields` of a struct calls `f(key, field)` for each field, in the order of the binary form. A function in the place
/// of a field is an object in JSON: it does the same for the members of that object.
struct key {
    char const* name;
    enum { required, optional, nullable } is = required;
};
constexpr key optional(char const* name) noexcept { return {name, key::optional}; }
constexpr key nullable(char const* name) noexcept { return {name, key::nullable}; }

}  // namespace detail

// `fields` calls `f(key, field)` for each field of a struct, in the order of the binary form. A field that is a
// function is a group: it calls its argument for each field in it.

/// How an allocation is opened. An alias is none of these but a way to attach: the origin is oneself.
enum class memory_kind : std::uint8_t {
    none,         ///< nothing to open: the size is 0
    host_shared,  ///< a segment of POSIX shared memory: the name is all that is needed. That of a memfd says so: its
                  ///< file must have come over a socket
    cuda_legacy,  ///< a handle of cudaIpcGetMemHandle: travels as plain data
    cuda_pool,    ///< a pointer exported from a pool; the pool itself must have come over a socket
};

/// The name of a kind in JSON and messages: "host_shared", …, or "unknown".
[[nodiscard]] constexpr char const* name(memory_kind kind) noexcept {
    constexpr char const* names[] = {"none", "host_shared", "cuda_legacy", "cuda_pool"};
    auto const i = static_cast<std::size_t>(kind);
    return i < sizeof names / sizeof names[0] ? names[i] : "unknown";
}

/// A device's name in every process.
using uuid = std::array<std::uint8_t, 16>;

/// The exporting process, distinguished from a later process with the same id.
struct origin {
    std::uint32_t pid = 0;
    std::uint64_t pid_namespace = 0;  ///< the inode of /proc/PID/ns/pid
    uuid boot_id{};                   ///< /proc/sys/kernel/random/boot_id

    static constexpr void fields(auto& o, auto& f) {
        f({"pid"}, o.pid), f({"pid_namespace"}, o.pid_namespace), f({"boot_id"}, o.boot_id);
    }
    friend bool operator==(origin const&, origin const&) = default;
};

/// One allocation, of which a range is exported.
struct memory {
    memory_kind kind = memory_kind::none;
    device_type type = device_type::cpu;
    uuid device{};                    ///< zero on the host. No ordinal travels: ordinals differ between processes
    std::uint64_t id = 0;             ///< never used again by one exporter
    std::uint64_t allocation = 0;     ///< bytes of the whole allocation
    std::uint64_t offset = 0;         ///< bytes from its begin to the exported range
    std::uint64_t length = 0;         ///< bytes of the range
    std::string name{};               ///< of the control segment; host_shared: the data follows in the same segment
    std::vector<std::byte> handle{};  ///< 64 bytes for the CUDA kinds, else empty
    std::vector<std::byte> ready{};   ///< an event's handle of 64 bytes; empty: ready already

    static constexpr void fields(auto& m, auto& f) {
        // key: the front end of nvcc 13 crashes on braces before an array here.
        f({"kind"}, m.kind), f({"device"}, [&](auto& g) { g({"type"}, m.type), g(detail::key{"uuid"}, m.device); });
        f({"id"}, m.id), f({"allocation"}, m.allocation), f({"offset"}, m.offset), f({"length"}, m.length);
        f(detail::optional("name"), m.name), f(detail::optional("handle"), m.handle);
        f(detail::optional("ready"), m.ready);
    }
    friend bool operator==(memory const&, memory const&) = default;
};

/// A strided array in one memory's range.
struct tensor {
    data_type dtype{};
    std::vector<std::int64_t> shape{};
    std::vector<std::int64_t> strides{};  ///< in elements, of any sign; empty: compact, row-major
    std::int64_t byte_offset = 0;         ///< of element 0, from the begin of the exported range
    ferry::flags flags{};
    std::uint32_t memory = 0;  ///< its place in descriptor::memories

    static constexpr void fields(auto& t, auto& f) {
        auto& type = t.dtype;
        f({"dtype"}, [&](auto& g) { g({"code"}, type.code), g({"bits"}, type.bits), g({"lanes"}, type.lanes); });
        f({"memory"}, t.memory), f({"byte_offset"}, t.byte_offset), f(detail::optional("flags"), t.flags);
        f({"shape"}, t.shape), f(detail::nullable("strides"), t.strides);
    }
    friend bool operator==(tensor const&, tensor const&) = default;
};

/// The place in `memories` of what is not there: a buffer that its column leaves out, such as the validity without
/// nulls.
inline constexpr std::uint32_t no_memory = 0xffff'ffff;

/// Some bytes of one memory's range.
struct slice {
    std::uint32_t memory = no_memory;
    std::uint64_t offset = 0;  ///< bytes from the begin of the exported range
    std::uint64_t length = 0;  ///< bytes

    static constexpr std::size_t least_size = 20;  ///< bytes in the binary form
    static constexpr void fields(auto& s, auto& f) {
        f({"memory"}, s.memory), f({"offset"}, s.offset), f({"length"}, s.length);
    }
    friend bool operator==(slice const&, slice const&) = default;
};

/// One node of a column, in Arrow's terms: what ArrowSchema and ArrowArray say, with sizes to the buffers.
struct node {
    std::string format{};
    std::string name{};
    std::vector<std::byte> metadata{};  ///< as ArrowSchema has it, little-endian; empty: none
    std::int64_t length = 0;            ///< items
    std::int64_t null_count = -1;       ///< -1: not counted
    std::int64_t offset = 0;            ///< items; for validity, data and offsets alike
    std::int64_t flags = 0;             ///< ArrowSchema's
    std::vector<slice> buffers{};
    std::vector<node> children{};
    std::vector<node> dictionary{};  ///< one, or none

    /// Without children and dictionary.
    static constexpr void fields(auto& n, auto& f) {
        f({"length"}, n.length), f(detail::optional("null_count"), n.null_count);
        f(detail::optional("offset"), n.offset), f(detail::optional("flags"), n.flags);
        f({"format"}, n.format), f(detail::optional("name"), n.name), f(detail::optional("metadata"), n.metadata);
        f({"buffers"}, n.buffers);
    }
    friend bool operator==(node const&, node const&) = default;
};

/// The version of the format: what this ferry writes. A reader takes every minor of its major.
inline constexpr std::uint16_t major_version = 2;
/// Grows when something is added that older readers may skip.
inline constexpr std::uint16_t minor_version = 0;

/// A tree of buffers, of which a tensor is the one-leaf case, and the memory that they lie in.
struct descriptor {
    std::uint16_t major = major_version;
    std::uint16_t minor = minor_version;
    origin from{};
    std::vector<memory> memories{};
    std::variant<tensor, node> root{};

    friend bool operator==(descriptor const&, descriptor const&) = default;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::wire
