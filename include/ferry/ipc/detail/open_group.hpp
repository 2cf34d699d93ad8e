// ferry: opens the memories of a descriptor, as an alias, by an existing mapping, or by a new one.
#pragma once

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/ipc/detail/session_state.hpp>
#include <ferry/ipc/session.hpp>

namespace FERRY_NAMESPACE::ipc::detail {

/// Keeps the memories of a group: as a user of a mapping, or as an owner of a share of this process and session.
class attachment {
   public:
    attachment() = default;
    explicit attachment(std::shared_ptr<share_state> own) noexcept : own_{std::move(own)} {}
    /// If `is_known`, the destructor keeps the mapping for the next attach without a check whether its share is open.
    attachment(std::shared_ptr<session_state> session, std::shared_ptr<mapping_entry> mapping,
               bool is_known = false) noexcept
        : session_{std::move(session)}, mapping_{std::move(mapping)}, is_known_{is_known} {
        if (mapping_->process.is_here()) mapping_->control().add_reader(mapping_->place);
    }
    attachment(attachment&& other) noexcept = default;
    attachment& operator=(attachment&&) = delete;
    ~attachment() {
        if (session_ == nullptr) return;
        if (mapping_->process.is_here()) {
            if (!announce_done()) {  // the mapping and the count of this reader stay until this process ends
                std::lock_guard const lock{mapping_->recording};
                mapping_->kept_by = std::move(session_);
                return;
            }
            // An inherited slot belongs to the child as well, and this process does not use it again.
            if (!mapping_->is_inherited()) mapping_->control().drop_reader(mapping_->place);
        }
        session_->imports().release(*mapping_, is_known_);
    }
    [[nodiscard]] explicit operator bool() const noexcept { return session_ != nullptr || own_ != nullptr; }
    /// Returns the mapping; null if the memory is that of a share of this process.
    [[nodiscard]] std::shared_ptr<mapping_entry> const& mapping() const noexcept { return mapping_; }
    /// Sets the stream on which the memory is used, after it has been checked.
    void use_on(stream_token on) noexcept { on_ = on; }

   private:
    /// Stores the event of the queued work. Called before the number of readers is reduced, so that an exporter that
    /// sees no reader sees the event. Returns false when the completion of the work cannot be determined.
    [[nodiscard]] bool announce_done() noexcept {
        if (mapping_->foreign.empty() || !on_.names_stream()) return true;
        try {
            std::lock_guard const lock{mapping_->recording};
            event_handle done;
            auto& first = *mapping_->foreign[0];            // its event marks the work that uses any of the memories
            auto const on = on_.on_device(first.device());  // every device has default streams of its own
            if (first.record_done(on, done)) mapping_->control().announce(mapping_->place, done);
        } catch (error const& e) {
            return e.code() != errc::capturing;
        } catch (...) {  // no work runs on a device that is lost
        }
        return true;
    }

    std::shared_ptr<share_state> own_{};
    std::shared_ptr<session_state> session_{};  // null without a mapping, and after a move
    std::shared_ptr<mapping_entry> mapping_{};
    bool is_known_ = false;
    stream_token on_{};
};

inline constexpr char const* gone = "its exporter has closed it, or is gone";

/// The numbers of those memories of a descriptor that have the same name, and thus the same control page.
using memory_group = std::span<std::uint32_t const>;

/// One call of `attach`, `attach_column` or `attach_list`.
struct attach_call {
    wire::descriptor const& from;
    attach_options const& how;
    bool is_read_only;  // whether the group that is opened next is read-only
    std::source_location where;
    std::shared_ptr<session_state> session = session_access::state(how.session);
    wire::origin me = session->me(where);
    std::uint32_t tried = 0;  // the number of the memory that is being opened

    template <class... Parts>
    [[noreturn]] FERRY_ALWAYS_INLINE void refuse(errc code, Parts... parts) const {
        fail(code, attach_api, where, parts...);
    }
    [[noreturn]] FERRY_COLD void fail_gone(wire::memory const& m, char const* why) const {
        refuse(errc::exporter_gone, m.name.c_str(), ": ", why, ": get a new descriptor from it or its successor");
    }
    [[nodiscard]] int file(std::size_t i) const noexcept { return i < how.files.size() ? how.files[i] : -1; }
    /// Returns the file of the segment of a group; -1 if there is none. If there are more files than memories, the
    /// files of the segments follow those of the memories. Otherwise each memory has one file, which for memory of a
    /// pool is the file of the pool.
    [[nodiscard]] int segment_of(memory_group group) const noexcept {
        auto const count = from.memories.size();
        bool const is_last = how.files.size() > count || from.memories[group[0]].kind == wire::memory_kind::cuda_pool;
        return file((is_last ? count : 0) + group[0]);
    }
};

/// Refuses a descriptor whose name is not that of a segment of this user, which wire::check cannot know.
inline segment_name check_origin(attach_call const& call, wire::memory const& m) {
    auto const name = parse_segment_name(m.name);
    if (!name)
        call.refuse(errc::bad_descriptor, "memories[0].name is `", m.name.c_str(),
                    "`, which is not the name of a segment: get a new descriptor from the exporter");
    if (name->uid != ::geteuid())
        call.refuse(errc::permission, "user ", name->uid, " shares this, and this process runs as ", ::geteuid(),
                    ": share and attach as one user");
    return *name;
}

/// Returns whether the memory has a handle of a driver.
[[nodiscard]] inline bool has_handle(wire::memory const& m) noexcept {
    return m.kind != wire::memory_kind::host_shared && m.kind != wire::memory_kind::none;
}

/// Returns the ID that the control page must have. Returns nothing for device memory, because a page has the ID of only
/// one of its memories.
[[nodiscard]] inline std::optional<std::uint64_t> page_id(wire::memory const& m) noexcept {
    return has_handle(m) ? std::nullopt : std::optional{m.id};
}

/// Returns the key of a mapping in the cache. It contains everything that determines which memory is mapped, and how.
/// With names alone, an exporter could replace the memory of another exporter.
[[nodiscard]] inline std::string key_of(attach_call const& call, memory_group group, segment_name const& name) {
    auto const& first = call.from.memories[group[0]];
    inplace_text text{first.name.c_str()};
    text << (call.is_read_only ? 'r' : 'w');
    if (auto const& d = call.how.device) text << int{static_cast<int>(d->type)} << ':' << d->id;
    if (name.kind == segment_kind::anonymous) {
        struct stat facts = {};
        int const file = call.segment_of(group);
        if (file < 0) fail_without_file(first.name, attach_api, call.where);
        if (::fstat(file, &facts) != 0) fail_segment(errno, "fstat", first.name, attach_api, call.where);
        text << ':' << std::uint64_t{facts.st_dev} << ':' << std::uint64_t{facts.st_ino};
    }
    std::string key{text.c_str()};
    for (auto const i : group) {
        auto const& handle = call.from.memories[i].handle;
        key.append(reinterpret_cast<char const*>(handle.data()), handle.size());
    }
    return key;
}

/// Maps the host memory of a group, or opens its device memory.
inline void open_import(mapping_entry& made, attach_call& call, memory_group group, segment_name const& name,
                        handle_ref b) {
    auto const& first = call.from.memories[group[0]];
    auto const mode = call.is_read_only ? access_mode::read_only : access_mode::read_write;
    auto const bytes = first.kind == wire::memory_kind::host_shared ? first.allocation : 0;
    made.share = name.id;
    made.process = process_mark::here();
    try {
        auto found = segment::open(first.name, bytes, page_id(first), mode, call.segment_of(group), call.where);
        made.where = std::make_shared<region>(std::move(found), first.id, mode);
    } catch (error const& e) {
        bool const is_missing = e.code() == errc::exporter_gone || e.code() == errc::unsupported_platform;
        if (!is_missing || call.from.from.boot_id == call.me.boot_id) throw;
        call.fail_gone(first, "it was shared on another machine, or before this one was started");
    }
    call.session->regions().add(made.where);
    made.where->shared_as = region::use::imported;
    if (!made.memory().is_sealed()) {
        made.place = made.control().enter(made.memory().locks());
        if (made.place == -1) fail_no_lock(call.where);
    }
    if (!made.begin_reading()) fail_no_lock(call.where);
    if (!made.is_attachable()) call.fail_gone(first, gone);
    auto const handles = calls_of(b);
    for (auto const i : group) {
        call.tried = i;
        auto const& m = call.from.memories[i];
        made.descriptions.push_back(m);
        if (!has_handle(m)) {
            if (group.size() == 1) return;
            call.refuse(errc::bad_descriptor, "several memories have the name ", m.name.c_str(),
                        ", and one is of kind ", wire::name(m.kind),
                        ", which requires its own name: get a new descriptor from the exporter");
        }
        if (handles != nullptr && handles->opens(m)) {
            made.foreign.push_back(handles->open_memory(m, opening{call.how.device, call.file(i)}));
            continue;
        }
        call.refuse(errc::no_backend, "the passed back end opens no memory of kind ", wire::name(m.kind),
                    uses_cuda_streams(m.type) ? ": include <ferry/cuda/ipc.hpp> and pass ferry::cuda::shareable" : "");
    }
}

/// Returns whether two descriptions refer to the same bytes.
[[nodiscard]] inline bool is_same_range(wire::memory const& a, wire::memory const& b) noexcept {
    return a.id == b.id && a.allocation == b.allocation && a.kind == b.kind && a.offset == b.offset &&
           a.length == b.length;
}

/// Finds the memories of a descriptor in which an importer of `own` passes on memory that this process exports. They
/// become aliases of `own`.
inline void find_passed_back(attach_call& call, memory_group group, share_state const& own,
                             std::span<memory_range> out) {
    static_cast<void>(ferry::detail::check_stream(call.how.stream, own.device, {attach_api, call.where}));
    for (auto const i : group) {
        auto const& m = call.from.memories[i];
        auto const found = std::find_if(own.memories.begin(), own.memories.end(),
                                        [&](auto const& its) { return is_same_allocation(its.description, m); });
        if (found == own.memories.end())
            call.refuse(errc::same_process,
                        "this process shares these memories itself, in several shares: attach the tensors one by one");
        event_handle ready;
        if (!m.ready.empty() && !call.how.stream.is_no_sync()) {
            bool is_ordered = m.ready.size() == ready.size();
            if (is_ordered) {
                std::memcpy(ready.data(), m.ready.data(), ready.size());
                is_ordered = own.handles[0]->order_after(ready, call.how.stream.on_device(own.device));
            }
            if (!is_ordered) call.fail_gone(m, "its event cannot be opened");
        }
        out[i] = {found->begin - found->description.offset + m.offset, m.length, own.device, own.is_read_only};
    }
}

/// Opens the memories of a group of a checked descriptor. Sets the range of each.
[[nodiscard]] inline attachment open_group(attach_call& call, memory_group group, handle_ref b,
                                           std::span<memory_range> out) {
    call.tried = group[0];
    auto const& how = call.how;
    auto const memory = [&](std::uint32_t i) -> auto& { return call.from.memories[i]; };
    auto const& first = memory(group[0]);
    auto const name = check_origin(call, first);
    if (auto own = call.session->find(name.id)) {
        auto const is_same = [&](auto i, auto const& its) { return memory(i) == its.description; };
        if (!std::equal(group.begin(), group.end(), own->memories.begin(), own->memories.end(), is_same))
            call.refuse(
                errc::bad_descriptor,
                "its memory differs from the memory that was shared with this name: get a new descriptor from the "
                "exporter");
        if (!own->is_open) call.fail_gone(first, "this process has closed it");
        static_cast<void>(ferry::detail::check_stream(how.stream, own->device, {attach_api, call.where}));
        for (auto const& handle : own->handles) handle->wait_ready(how.stream.on_device(own->device));
        for (std::size_t i = 0; i < group.size(); ++i)
            out[group[i]] = {own->memories[i].begin, memory(group[i]).length, own->device, own->is_read_only};
        return attachment{std::move(own)};
    }
    auto const is_open = [&, mode = access_mode::read_write] {
        return segment::open(first.name, 0, {}, mode, call.segment_of(group), call.where).is_open(name.id);
    };
    if (auto own = has_handle(first) ? call.session->find_exported(first) : nullptr) {
        if (!is_open()) call.fail_gone(first, gone);
        find_passed_back(call, group, *own, out);
        return attachment{std::move(own)};
    }
    if (call.from.from == call.me && has_handle(first)) {
        if (!is_open()) call.fail_gone(first, "this process has closed it");
        call.refuse(
            errc::same_process,
            "this process shares the memory itself, and handles open in other processes only: pass the session that "
            "shared it");
    }

    auto const key = key_of(call, group, name);
    auto const open = [&](mapping_entry& made) { open_import(made, call, group, name, b); };
    auto const mapping =
        call.session->with_room([&] { return call.session->imports().acquire(key, open, call.where); });
    attachment hold{call.session, mapping};
    if (!mapping->is_attachable()) call.fail_gone(first, gone);
    auto const& mapped = mapping->descriptions;
    auto const is_mapped = [&](auto i, auto const& its) { return is_same_range(memory(i), its); };
    if (!std::equal(group.begin(), group.end(), mapped.begin(), mapped.end(), is_mapped))
        call.refuse(
            errc::bad_descriptor,
            "its memory differs from the memory that is mapped with this name: get a new descriptor from the exporter");
    for (std::size_t i = 0; i < group.size(); ++i) {
        auto const& m = memory(group[i]);
        memory_range& found = out[group[i]];
        found = {nullptr, m.length, how.device && how.device->type == m.type ? *how.device : m.type};
        if (!mapping->foreign.empty()) {
            opened& one = *mapping->foreign[i];
            found.begin = static_cast<std::byte*>(one.data());
            found.device = one.device();
            static_cast<void>(ferry::detail::check_stream(how.stream, found.device, {attach_api, call.where}));
            one.wait_ready(m, how.stream.on_device(found.device));
        } else if (m.length != 0) {
            found.begin = mapping->memory().data() + m.offset;
        }
    }
    hold.use_on(how.stream);
    return hold;
}

/// Refers to the mappings of host memory that an attach of a descriptor has found. Does not own them.
struct known_memory {
    session_state const* of = nullptr;  // the session of the mappings; null if there are none
    std::vector<std::weak_ptr<mapping_entry>> mappings{};
    std::vector<memory_range> ranges{};

    void set(attach_call const& call, std::span<attachment const> held, std::span<memory_range const> found) {
        *this = {};
        for (auto const& one : held) {
            if (one.mapping() == nullptr || !one.mapping()->foreign.empty() || call.how.device) return;
            mappings.push_back(one.mapping());
        }
        ranges.assign(found.begin(), found.end());
        of = call.session.get();
    }
    /// Attaches a mapping again, without a check of the descriptor or whether the share is open. Returns an empty
    /// object if the mapping is not known or has been unmapped.
    [[nodiscard]] attachment attach(std::size_t i, attach_options const& how, std::source_location where) const {
        if (of == nullptr || how.device) return {};
        auto session = session_access::state(how.session);
        auto mapping = session.get() == of ? session->imports().acquire_again(mappings[i], where) : nullptr;
        return mapping != nullptr ? attachment{std::move(session), std::move(mapping), true} : attachment{};
    }
};

// `known` has the mappings of the last call with this descriptor; null if the descriptor is attached only once.
[[nodiscard]] FERRY_INLINE managed_tensor attach_tensor(wire::descriptor const& from, attach_options const& how,
                                                        handle_ref b, known_memory* known, std::source_location where);
[[nodiscard]] FERRY_INLINE column attach_column(wire::descriptor const& from, attach_options const& how, handle_ref b,
                                                known_memory* known, std::source_location where);

}  // namespace FERRY_NAMESPACE::ipc::detail
