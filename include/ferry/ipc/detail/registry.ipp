// ferry: the engine of ipc/registry.hpp.
//
// A registry is a directory `<name>.names` in the directory of the topics. Each of its files contains a record as in
// the file of a topic, and is replaced atomically. The process that owns the registry has claimed its name.
#pragma once

#include <ferry/ipc/registry.hpp>

#include <ferry/ipc/attach_column.hpp>
#include <ferry/ipc/detail/process.hpp>
#include <ferry/ipc/detail/topic_file.hpp>

#include <map>

namespace FERRY_NAMESPACE::ipc {

struct registry::state {
    static constexpr char const* api = "ferry::ipc::registry";
    struct published {
        ipc::shared share;
        std::uint64_t bytes;
        [[nodiscard]] std::size_t count() const noexcept { return share.descriptor().memories.size(); }
    };
    using map = std::map<std::string, published, std::less<>>;

    state(std::string_view name, registry_options const& options)
        : how{options},
          file{detail::file_of(name, api) + ".names"},
          parent{detail::names_directory(how.names.directory, api)},
          names{parent.get(), api} {
        if (!names.claim(file))
            detail::fail(errc::busy, api, file.c_str(), " has an owner: end it, or choose another name");
        directory = detail::private_directory(parent.get(), file.c_str(), api);
        remove(passing);
        detail::for_each_name(directory.get(), api, [&](char const* entry, auto&&) { remove(entry); });
    }
    void check_process() const {
        if (!process.is_here())
            detail::fail(errc::argument, api, "a forked child has no registry: make one under another name");
    }
    void remove(char const* entry) const noexcept { ::unlinkat(directory.get(), entry, 0); }
    void erase(map::iterator at) noexcept {
        remove(at->first.c_str());
        forget(at);
    }
    void forget(map::iterator at) noexcept {
        bytes -= at->second.bytes, allocations -= at->second.count();
        entries.erase(at);  // closes the share: later attaches fail
    }
    /// Returns the entries to drop before `size` bytes in `count` allocations are added under a name.
    [[nodiscard]] std::vector<map::iterator> choose(std::string const& key, std::uint64_t size, std::size_t count) {
        auto const former = entries.find(key);
        std::uint64_t left = bytes;
        std::size_t left_count = allocations;
        auto const subtract = [&](published const& p) { left -= p.bytes, left_count -= p.count(); };
        auto const fits = [&] { return left <= how.most_bytes - size && left_count <= how.most_allocations - count; };
        if (former != entries.end()) subtract(former->second);
        std::vector<map::iterator> doomed;
        if (fits()) return doomed;
        std::vector<std::pair<std::int64_t, map::iterator>> order;
        for (auto at = entries.begin(); at != entries.end(); ++at) {
            struct stat facts = {};  // a find sets the time of the last access
            if (at == former || at->second.share.readers() != 0) continue;
            static_cast<void>(::fstatat(directory.get(), at->first.c_str(), &facts, AT_SYMLINK_NOFOLLOW));
            order.emplace_back(facts.st_atim.tv_sec * 1'000'000'000 + facts.st_atim.tv_nsec, at);
        }
        std::ranges::sort(order, {}, [](auto const& o) { return o.first; });
        for (auto const& [time, at] : order) {
            if (fits()) break;
            subtract(at->second);
            doomed.push_back(at);
        }
        if (!fits())
            detail::fail(errc::busy, api, key.c_str(), " has ", size, " bytes in ", count,
                         " allocations, and other processes read ", left, " bytes in ", left_count, " of the ",
                         how.most_bytes, " and ", how.most_allocations,
                         " permitted: drop entries, or raise most_bytes or most_allocations");
        return doomed;
    }
    void write(std::string const& key, detail::topic_slot const& s) {
        remove(passing);
        unique_fd const f{
            ::openat(directory.get(), passing, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
        if (!f) detail::fail_system(api, key.c_str());
        try {
            if (detail::exceeds_file_limit(sizeof s.record + s.bytes.size()))
                detail::fail_system(api, key.c_str(), EFBIG);
            detail::write_at(f.get(), 0, &s.record, sizeof s.record, api);
            detail::write_at(f.get(), sizeof s.record, s.bytes.data(), s.bytes.size(), api);
            if (::renameat(directory.get(), passing, directory.get(), key.c_str()) != 0)
                detail::fail_system(api, key.c_str());
        } catch (...) {
            remove(passing);
            throw;
        }
    }

    static constexpr char const* passing = ".new";
    registry_options how;
    std::string file;
    unique_fd parent;
    detail::names_file names;
    unique_fd directory{};
    map entries{};
    std::uint64_t bytes = 0;
    std::size_t allocations = 0;
    // The number of the last entry. Begins at random, so that a reader can distinguish the entries of two owners.
    std::uint64_t generation = detail::fresh_id(api, std::source_location::current()) >> 8;
    detail::process_mark process = detail::process_mark::here();
};

FERRY_INLINE registry::registry(std::string_view name, registry_options const& how)
    : state_{std::make_unique<state>(name, how)} {}

FERRY_INLINE registry::~registry() {
    auto& s = *state_;
    if (!s.process.is_here()) return;
    for (auto const& [key, one] : s.entries) s.remove(key.c_str());
    ::unlinkat(s.parent.get(), s.file.c_str(), AT_REMOVEDIR);
}

FERRY_INLINE void registry::put(std::string_view name, shared&& share) {
    auto& s = *state_;
    s.check_process();
    auto const key = detail::file_of(name, s.api);
    if (!share.is_open() || std::ranges::any_of(share.files(), [](int file) { return file >= 0; }))
        detail::fail(errc::argument, s.api, key.c_str(),
                     ": the share is closed, or requires files: pass an open share in named segments");
    std::uint64_t bytes = 0;
    for (auto const& m : share.descriptor().memories) bytes += m.allocation + detail::page_bytes();
    auto const count = share.descriptor().memories.size();
    if (bytes > s.how.most_bytes || count > s.how.most_allocations)
        detail::fail(errc::argument, s.api, key.c_str(), " has ", bytes, " bytes in ", count,
                     " allocations, and most_bytes is ", s.how.most_bytes, ", most_allocations ",
                     s.how.most_allocations, ": raise the one that it exceeds");
    auto made = detail::describe(share.descriptor(), s.how.names, s.generation + 1, s.api);
    made.record.generation = s.generation + 1;
    auto const doomed = s.choose(key, bytes, count);
    state::map fresh;
    auto& kept = fresh.emplace(key, state::published{{}, bytes}).first->second;
    s.write(key, made);
    kept.share = std::move(share);
    // No operation below can fail.
    ++s.generation;
    for (auto const at : doomed) s.erase(at);
    if (auto const former = s.entries.find(key); former != s.entries.end()) s.forget(former);
    s.entries.merge(fresh);
    s.bytes += bytes, s.allocations += count;
}

FERRY_INLINE bool registry::drop(std::string_view name) {
    auto& s = *state_;
    s.check_process();
    auto const found = s.entries.find(detail::file_of(name, s.api));
    if (found == s.entries.end()) return false;
    s.erase(found);
    return true;
}

FERRY_INLINE std::uint64_t registry::bytes() const noexcept { return state_->bytes; }
FERRY_INLINE std::size_t registry::size() const noexcept { return state_->entries.size(); }

namespace detail {

/// Opens the directory of a registry. Returns an empty object if the registry has no owner.
[[nodiscard]] inline unique_fd registry_directory(std::string_view name, topic_options const& how, char const* api) {
    auto const parent = names_directory(how.directory, api);
    auto const file = file_of(name, api) + ".names";
    if (!names_file{parent.get(), api}.is_claimed(file)) return {};
    return private_directory(parent.get(), file.c_str(), api);
}

/// Attaches an entry. Tries again while the entry is being replaced.
template <class T, class Attach>
[[nodiscard]] std::optional<T> find_entry(std::string_view registry_name, std::string_view name,
                                          topic_options const& how, char const* api, Attach attach) {
    auto const directory = registry_directory(registry_name, how, api);
    auto const file = file_of(name, api);
    for (std::uint64_t last = 0; directory;) {
        auto const f = open_own(directory.get(), file.c_str(), O_RDONLY, api);
        topic_record r;
        if (!f) break;
        std::vector<std::byte> bytes;
        bool is_whole = read_at(f.get(), 0, &r, sizeof r) && r.length <= most_descriptor;
        if (is_whole) bytes.resize(r.length), is_whole = read_at(f.get(), sizeof r, bytes.data(), bytes.size());
        if (!is_whole) fail(errc::bad_descriptor, api, file.c_str(), " is damaged: call put() for the entry again");
        timespec const now[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
        ::futimens(f.get(), now);  // the owner drops the least recently found entries first
        try {
            return attach(wire::from_bytes(bytes));
        } catch (error const& e) {
            if (e.code() != errc::exporter_gone) throw;
            if (std::exchange(last, r.generation) == r.generation) break;  // the entry or its owner has ended
        }
    }
    return {};
}

}  // namespace detail

FERRY_INLINE std::optional<managed_tensor> find_tensor(std::string_view registry_name, std::string_view name,
                                                       attach_options const& how, handle_ref b,
                                                       topic_options const& names) {
    return detail::find_entry<managed_tensor>(registry_name, name, names, "ferry::ipc::find_tensor",
                                              [&](auto const& from) { return ipc::attach(from, how, b); });
}

FERRY_INLINE std::optional<column> find_column(std::string_view registry_name, std::string_view name,
                                               attach_options const& how, handle_ref b, topic_options const& names) {
    return detail::find_entry<column>(registry_name, name, names, "ferry::ipc::find_column",
                                      [&](auto const& from) { return ipc::attach_column(from, how, b); });
}

FERRY_INLINE std::vector<std::string> entries(std::string_view registry_name, topic_options const& names) {
    constexpr auto api = "ferry::ipc::entries";
    auto const directory = detail::registry_directory(registry_name, names, api);
    std::vector<std::string> all;
    if (directory)
        detail::for_each_name(directory.get(), api,
                              [&](char const*, std::string name) { all.push_back(std::move(name)); });
    std::ranges::sort(all);
    return all;
}

}  // namespace FERRY_NAMESPACE::ipc
