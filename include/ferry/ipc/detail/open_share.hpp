// ferry: how an attach comes about: an alias, a mapping that is there already, or a new one.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/detail/session_state.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/wire/check.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>  // see region.hpp
#include <optional>
#include <source_location>
#include <span>
#include <string>  // see region.hpp
#include <utility>
#include <variant>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail {

inline constexpr char const* attach_api = "ferry::ipc::attach";

/// A tensor's hold on a mapping.
class attachment {
   public:
    attachment(std::shared_ptr<session_state> session, import_cache::handle mapping, stream_token on) noexcept
        : session_{std::move(session)}, mapping_{mapping}, on_{on} {
        if (mapping_->process.is_here()) mapping_->add_reader();
    }
    attachment(attachment&& other) noexcept = default;
    attachment& operator=(attachment&&) = delete;
    ~attachment() {
        if (session_ == nullptr) return;
        if (mapping_->process.is_here()) {  // mutant: ipc_fork_place
            // mutant: ipc_done_announced
            if (!announce_done()) {  // counted as read, and mapped, until this process ends
                std::lock_guard const lock{mapping_->recording};
                mapping_->kept_by = std::move(session_);  // mutant: ipc_captured_kept
                return;
            }
            // The child has the place as well, and this process will not use it again.
            if (!mapping_->is_inherited()) mapping_->drop_reader();
        }
        session_->imports().release(mapping_);
    }
    [[nodiscard]] mapping_entry& mapping() const noexcept { return *mapping_; }
    [[nodiscard]] stream_token stream() const noexcept { return on_; }

   private:
    /// Called before the reader is subtracted, so that an exporter that sees no reader sees the event. False when the
    /// completion of the queued work cannot be determined.
    [[nodiscard]] bool announce_done() noexcept {
        if (mapping_->foreign.empty() || !on_.names_stream()) return true;
        try {
            std::lock_guard const lock{mapping_->recording};
            event_handle done;
            auto& first = *mapping_->foreign[0];  // its event marks the work that uses any of the memories
            // mutant: ipc_done_device
            auto const on = on_.on_device(first.device());  // every device has default streams of its own
            if (first.record_done(on, done)) mapping_->control().announce(mapping_->place, done);
        } catch (error const& e) {
            return e.code() != errc::capturing;
        } catch (...) {  // a device that is lost runs nothing any more
        }
        return true;
    }

    std::shared_ptr<session_state> session_;  // null when moved from
    import_cache::handle mapping_;
    stream_token on_;
};

[[noreturn]] FERRY_COLD inline void fail_gone(wire::memory const& m, char const* why, std::source_location where) {
    fail(errc::exporter_gone, attach_api,
         message{m.name.c_str()} << ": " << why << ": ask it, or its successor, for a new descriptor", where);
}

/// Refuses a descriptor that cannot be of a share here: what wire::check cannot know.
inline segment_name check_origin(wire::descriptor const& d, wire::memory const& m, wire::origin const& me,
                                 std::source_location where) {
    auto const name = parse_segment_name(m.name);
    if (!name)
        fail(errc::bad_descriptor, attach_api,
             message{"memories[0].name is `"} << m.name.c_str() << "`, which is not the name of a segment", where);
    if (name->uid != ::geteuid())
        fail(errc::permission, attach_api,
             message{"user "} << name->uid << " shares this, and this process runs as " << std::uint64_t{::geteuid()}
                              << ": share and attach as one user",
             where);
    if (d.from.boot_id != me.boot_id)
        fail_gone(m, "it was shared on another machine, or before this one was started", where);
    return *name;
}

/// Opens a handle, and tries again without unused mappings when one of them may have caused the failure.
template <class Open>
[[nodiscard]] auto open_again(session_state& session, Open open) {
    try {
        return open();
    } catch (error const& e) {
        bool const may_help = e.code() == errc::already_mapped || e.code() == errc::out_of_memory;
        if (!may_help || session.imports().unused() == 0) throw;
    }
    session.imports().trim();  // mutant: ipc_open_again
    return open();
}

/// The numbers of a descriptor's memories that have one name, and thus one control page.
using memory_group = std::span<std::uint32_t const>;

/// Where memories are opened: a device, and the files of `attach_options::files`.
struct opening_place {
    std::optional<ferry::device> device{};
    std::span<int const> files{};
    std::uint32_t* tried = nullptr;  // gets the number of the memory that is being opened

    void note(std::uint32_t memory) const noexcept {
        if (tried != nullptr) *tried = memory;
    }
    [[nodiscard]] int file(std::size_t i) const noexcept { return i < files.size() ? files[i] : -1; }
    /// The file of the segment of a group. If there are more files than memories, those of segments come last. Of the
    /// others, that of a pool's memory is the file of the pool.
    [[nodiscard]] int segment_of(wire::descriptor const& d, memory_group group) const noexcept {
        bool const is_last =
            files.size() > d.memories.size() || d.memories[group[0]].kind == wire::memory_kind::cuda_pool;
        return file((is_last ? d.memories.size() : 0) + group[0]);
    }
};

/// Memories of a group: a mapping, or an alias of a share of this process and session.
class opened_share {
   public:
    explicit opened_share(attachment a) noexcept : held_{std::move(a)} {}
    explicit opened_share(std::shared_ptr<share_state> own) noexcept : held_{std::move(own)} {}

    /// The first byte of the exported range of the group's i-th memory; null when there is none.
    [[nodiscard]] std::byte* begin(std::size_t i) const noexcept {
        if (auto const* own = std::get_if<1>(&held_)) return (*own)->memories[i].begin;
        mapping_entry const& m = std::get<0>(held_).mapping();
        if (!m.foreign.empty()) return static_cast<std::byte*>(m.foreign[i]->data());
        return m.descriptions[i].length == 0 ? nullptr : m.where->memory.data() + m.descriptions[i].offset;
    }
    /// The device of the group's i-th memory, described by `m`.
    [[nodiscard]] ferry::device device(std::size_t i, wire::memory const& m, opening_place const& how) const noexcept {
        if (auto const* own = std::get_if<1>(&held_)) return (*own)->device;
        mapping_entry const& found = std::get<0>(held_).mapping();
        if (!found.foreign.empty()) return found.foreign[i]->device();
        return how.device && how.device->type == m.type ? *how.device : ferry::device{m.type};
    }
    [[nodiscard]] bool is_read_only() const noexcept {
        auto const* own = std::get_if<1>(&held_);
        return own != nullptr && (*own)->is_read_only;
    }

   private:
    std::variant<attachment, std::shared_ptr<share_state>> held_;
};

/// Memory of this process and session: shares its owner.
[[nodiscard]] inline opened_share alias(std::shared_ptr<share_state> s, wire::descriptor const& d, memory_group group,
                                        stream_token on, std::source_location where) {
    bool const is_same = std::ranges::equal(
        group, s->memories, {}, [&](std::uint32_t i) -> auto& { return d.memories[i]; },
        &share_state::memory::description);
    if (!is_same)  // mutant: ipc_alias_memory
        fail(errc::bad_descriptor, attach_api, message{"its memory is not what was shared under this name"}, where);
    if (!s->is_open) fail_gone(d.memories[group[0]], "this process has closed it", where);
    for (auto const& handle : s->handles) handle->wait_ready(on.on_device(s->device));  // mutant: ipc_alias_ready
    return opened_share{std::move(s)};
}

/// Maps, or opens, what the descriptor names.
template <class BackEnd>
void open_import(mapping_entry& made, session_state& session, wire::descriptor const& d, memory_group group,
                 segment_name const& name, opening_place const& how, access_mode mode, BackEnd& b,
                 std::source_location where) {
    auto const& first = d.memories[group[0]];
    bool const is_host = first.kind == wire::memory_kind::host_shared;
    made.share = name.id;
    made.process = process_mark::here();
    made.where = std::make_shared<region>(
        segment::open(first.name, is_host ? first.allocation : 0, first.id, mode, how.segment_of(d, group), where),
        first.id, mode);
    session.regions().add(made.where);
    made.where->shared_as = region::use::imported;
    if (made.where->memory.is_sealed()) made.begin_reading();
    else made.place = made.control().enter(made.where->memory.locks());
    if (made.place == -1) fail(errc::out_of_memory, attach_api, message{"the kernel has no memory for a lock"}, where);
    if (!made.is_attachable()) fail_gone(first, "its exporter has closed it, or is gone", where);
    for (auto const i : group) {
        how.note(i);
        auto const& m = d.memories[i];
        made.descriptions.push_back(m);
        if (m.kind == wire::memory_kind::host_shared || m.kind == wire::memory_kind::none) {
            if (group.size() == 1) return;
            fail(errc::bad_descriptor, attach_api,
                 message{"several memories have the name "} << m.name.c_str() << ", and one is of kind "
                                                            << wire::name(m.kind) << ", which has a name of its own",
                 where);
        }
        if constexpr (handle_back_end<BackEnd>) {
            if (b.opens(m)) {
                auto opened = open_again(session, [&] { return b.open_memory(m, opening{how.device, how.file(i)}); });
                made.foreign.push_back(std::make_unique<opened_by<decltype(opened)>>(std::move(opened)));
                continue;
            }
        }
        message text{"the passed back end opens no memory of kind "};
        text << wire::name(m.kind);
        if (uses_cuda_streams(m.type)) text << ": include <ferry/cuda/ipc.hpp> and pass ferry::cuda::shareable";
        fail(errc::no_backend, attach_api, text, where);
    }
}

/// Whether the same bytes are meant. The handles and events of one memory may differ.
[[nodiscard]] inline bool is_same_range(wire::memory const& a, wire::memory const& b) noexcept {
    return a.id == b.id && a.allocation == b.allocation && a.kind == b.kind && a.offset == b.offset &&
           a.length == b.length;
}

/// Opens the memories of a group of a checked descriptor.
template <class BackEnd>
[[nodiscard]] opened_share open_group(wire::descriptor const& d, memory_group group, bool is_read_only,
                                      std::shared_ptr<session_state> const& session, stream_token on,
                                      opening_place const& how, BackEnd& b, std::source_location where) {
    how.note(group[0]);
    auto const& m = d.memories[group[0]];
    auto const me = session->me(where);
    auto const name = check_origin(d, m, me, where);
    if (auto own = session->find(name.id)) return alias(std::move(own), d, group, on, where);
    bool const is_here = d.from.pid == me.pid && d.from.pid_namespace == me.pid_namespace;
    if (is_here && m.kind != wire::memory_kind::host_shared && m.kind != wire::memory_kind::none) {
        if (!segment::open(m.name, 0, m.id, access_mode::read_write, how.segment_of(d, group), where).is_open(name.id))
            fail_gone(m, "this process has closed it", where);
        fail(
            errc::same_process, attach_api,
            message{
                "this process shares the memory itself, and handles open in other processes only: pass the session that shared it"},
            where);
    }

    message key{m.name.c_str()};
    key << (is_read_only ? 'r' : 'w');
    if (how.device) key << int{static_cast<int>(how.device->type)} << ':' << how.device->id;
    auto const mapping = session->imports().acquire(key.c_str(), [&](mapping_entry& made) {
        open_import(made, *session, d, group, name, how,
                    is_read_only ? access_mode::read_only : access_mode::read_write, b, where);
    });
    attachment hold{session, mapping, on};
    mapping_entry& found = hold.mapping();
    if (!found.is_attachable()) fail_gone(m, "its exporter has closed it, or is gone", where);
    if (!std::ranges::equal(group, found.descriptions, is_same_range,
                            [&](std::uint32_t i) -> auto& { return d.memories[i]; }))
        fail(errc::bad_descriptor, attach_api, message{"its memory is not what is mapped under this name"}, where);
    for (std::size_t i = 0; i < found.foreign.size(); ++i) {
        opened& one = *found.foreign[i];
        one.wait_ready(d.memories[group[i]], on.on_device(one.device()));  // mutant: ipc_ready
    }
    return opened_share{std::move(hold)};
}

template <class BackEnd>
[[nodiscard]] managed_tensor open_share(wire::descriptor const& d, std::shared_ptr<session_state> const& session,
                                        stream_token on, opening_place const& how, BackEnd& b,
                                        std::source_location where) {
    wire::check(d);
    if (!std::holds_alternative<wire::tensor>(d.root))
        fail(errc::argument, attach_api,
             message{"the descriptor is a column's, not a tensor's: call ferry::ipc::attach_column"}, where);
    auto const& t = std::get<wire::tensor>(d.root);
    if (d.memories.size() != 1 || t.memory != 0)
        fail(errc::bad_descriptor, attach_api,
             message{"a tensor lies in one memory, and the descriptor has "} << std::uint64_t{d.memories.size()},
             where);
    std::uint32_t const only = 0;
    auto held = open_group(d, {&only, 1}, has(t.flags, flags::read_only), session, on, how, b, where);
    auto* const begin = held.begin(0);
    auto const place = held.device(0, d.memories[0], how);
    auto const bits = held.is_read_only() ? flags::read_only : flags::none;
    return make_managed(std::move(held), view_of(t, begin, place), bits, version::current, where);
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail
