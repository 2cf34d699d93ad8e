// ferry: one share on its exporter's side.
#pragma once

#include <ferry/ipc/detail/region.hpp>
#include <ferry/ipc/handle_ref.hpp>
#include <ferry/ipc/options.hpp>
#include <ferry/wire/descriptor.hpp>

#include <array>
#include <atomic>  // closed by one thread, looked at by others
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>  // see region.hpp
#include <string>  // see region.hpp
#include <utility>
#include <variant>
#include <vector>  // a share may have several memories

namespace FERRY_NAMESPACE::ipc::detail {

/// A tensor of a descriptor, in a memory that begins at `begin`; null: it is empty.
[[nodiscard]] inline tensor_view view_of(wire::tensor const& t, std::byte* begin, ferry::device where) noexcept {
    auto const strides = t.strides.empty() ? strides_view{} : strides_view{t.strides};
    void* const data = begin == nullptr ? nullptr : begin + t.byte_offset;
    return {data, t.dtype, t.shape, strides, where, known(t.flags) & ~flags::is_copied};
}

class session_state;

/// Whether one allocation of a device is meant, from the handle of its exporter.
[[nodiscard]] inline bool is_same_allocation(wire::memory const& a, wire::memory const& b) noexcept {
    return a.kind == b.kind && a.id == b.id && a.allocation == b.allocation && a.device == b.device &&
           a.handle == b.handle;
}

/// A control page, and the memories whose descriptions name it. Held by `shared`, by the exporter's own tensors, and by
/// the session for as long as importers have device memory mapped.
struct share_state {
    struct memory {
        wire::memory description;
        std::byte* begin;      // of the exported range
        std::uint32_t number;  // in the descriptor of the whole share
    };

    std::shared_ptr<session_state> session{};          // first: the others need it to die
    std::shared_ptr<void const> copy{};                // memory of copies off the host
    std::shared_ptr<void const> owner{};               // of memory that is shared where it lies
    std::shared_ptr<region> where{};                   // the control page, and the data of the host
    std::vector<std::unique_ptr<exported>> handles{};  // off the host; die before what they name
    std::string name{};
    std::vector<memory> memories{};
    ferry::device device{};
    std::uint64_t id = 0;    // as in the name
    process_mark process{};  // that may close it: not a forked child
    bool is_read_only = false;
    bool is_frozen = false;     // or will be
    bool is_passed_on = false;  // memory of a device that another process exports
    std::atomic<bool> is_open = false;

    // Of the whole share, in the first of its states.
    wire::descriptor description{};
    std::array<std::int64_t, 1> bytes{};  // of the first memory
    share_copies copied{};
    std::vector<std::shared_ptr<share_state>> others{};

    /// An element for the session's list, made in advance, because closing does not fail.
    std::list<std::shared_ptr<share_state>> place_among_condemned{nullptr};

    [[nodiscard]] control_page& control() const noexcept { return where->memory.control(); }
    [[nodiscard]] int locks() const noexcept { return where->memory.locks(); }
    /// The tensor; of a column: the bytes of its first memory.
    [[nodiscard]] tensor_view view() const noexcept {
        auto* const begin = memories[0].begin;
        if (auto const* const t = std::get_if<wire::tensor>(&description.root)) return view_of(*t, begin, device);
        return {static_cast<void*>(begin), dtype_of<std::uint8_t>, bytes, {}, device, flags::read_only};
    }
};

}  // namespace FERRY_NAMESPACE::ipc::detail
