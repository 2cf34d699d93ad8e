// ferry: one share on its exporter's side.
#pragma once

#include <ferry/ipc/detail/region.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/share_copies.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/wire/descriptor.hpp>

#include <atomic>  // closed by one thread, looked at by others
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>  // see region.hpp
#include <string>  // see region.hpp
#include <utility>
#include <variant>
#include <vector>  // a share may have several memories

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail {

/// exported_memory, whatever its type.
struct exporting {
    exporting() = default;
    exporting(exporting const&) = delete;
    exporting& operator=(exporting const&) = delete;
    virtual ~exporting() = default;
    virtual void wait_ready(stream_token) = 0;
    virtual bool is_done(event_handle const&) = 0;
    virtual bool order_after(event_handle const&, stream_token) = 0;
};
template <exported_memory E>
struct exporting_by final : exporting {
    explicit exporting_by(E&& e) : memory{std::move(e)} {}
    void wait_ready(stream_token on) override { memory.wait_ready(on); }
    bool is_done(event_handle const& done) override { return memory.is_done(done); }
    bool order_after(event_handle const& done, stream_token on) override { return memory.order_after(done, on); }
    E memory;
};

class session_state;

/// Held by `shared`, by the exporter's own tensors, and by the session for as long as importers have device memory
/// mapped.
struct share_state {
    share_state() = default;
    share_state(share_state const&) = delete;
    share_state& operator=(share_state const&) = delete;

    std::shared_ptr<session_state> session{};           // first: the others need it to die
    std::shared_ptr<void const> copy{};                 // memory of copies off the host
    managed_tensor owner{};                             // of a tensor that is shared where it lies
    std::shared_ptr<void const> column_owner{};         // of a column, some of which is shared where it lies
    std::shared_ptr<region> where{};                    // the control page, and the data of the host
    std::vector<std::unique_ptr<exporting>> handles{};  // off the host; die before what they name
    std::string name{};
    std::vector<wire::memory> memories{};  // under this name
    std::vector<std::byte*> begins{};      // of their exported ranges
    std::vector<std::uint32_t> numbers{};  // their places in the descriptor of the whole share
    wire::descriptor description{};        // of the whole share
    wire::tensor arena{};                  // of a column: its first memory, as bytes
    ferry::device device{};
    std::uint64_t id = 0;    // of this share, as in its name
    process_mark process{};  // that may close it: not a forked child
    share_copies copied{};
    bool is_frozen = false;  // or will be
    std::atomic<bool> is_open = false;
    std::vector<std::shared_ptr<share_state>> others{};  // of a column: the rest of its memories

    /// An element for the session's list, made in advance, because closing does not fail.
    std::list<std::shared_ptr<share_state>> place_among_condemned{nullptr};

    [[nodiscard]] control_page& control() const noexcept { return where->memory.control(); }
    [[nodiscard]] int locks() const noexcept { return where->memory.locks(); }
    void add(wire::memory m, std::byte* begin) {
        memories.push_back(std::move(m));
        begins.push_back(begin);
        numbers.push_back(0);  // a column has several, and numbers them
    }
    /// Of the tensor; of a column: the bytes of its first memory.
    [[nodiscard]] wire::tensor const& layout() const noexcept {
        auto const* const t = std::get_if<wire::tensor>(&description.root);
        return t != nullptr ? *t : arena;
    }
    [[nodiscard]] tensor_view view() const noexcept {
        auto const& t = layout();
        auto* const data = begins[0] == nullptr ? nullptr : begins[0] + t.byte_offset;
        return {static_cast<void*>(data),
                t.dtype,
                t.shape,
                t.strides.empty() ? strides_view{} : strides_view{t.strides},
                device,
                t.flags};
    }
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail
