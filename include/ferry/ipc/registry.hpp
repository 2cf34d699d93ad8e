// ferry: registry, which publishes tensors and columns under names, bounded in bytes.
//
// A registry is a directory `<name>.names`, in the directory of the topics, of files: a record of a topic each,
// replaced atomically. The process that owns it has claimed its name.
#pragma once

#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/attach_column.hpp>
#include <ferry/ipc/detail/process.hpp>
#include <ferry/ipc/detail/topic_file.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/ipc/share_column.hpp>
#include <ferry/ipc/shared.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>  // names are owned
#include <string_view>
#include <sys/stat.h>
#include <type_traits>
#include <utility>
#include <vector>  // lists of names

namespace FERRY_NAMESPACE::ipc {

/// Options of a registry. An aggregate whose order of members is frozen.
struct registry_options {
    /// Maximum number of bytes of the published memory together, with a control page (16 KiB) for each allocation.
    std::uint64_t most_bytes = std::numeric_limits<std::uint64_t>::max();
    /// Directory, and text for readers without ferry.
    topic_options names{};
    /// Maximum number of allocations of the published memory, of which each uses a file descriptor.
    std::size_t most_allocations = 512;
};

/// Publishes tensors and columns under names. The newest of a name wins. If they have too many bytes or allocations,
/// those that no process reads are dropped, the least recently found first.
///
/// One process at a time owns a registry; its entries end with it, and readers keep what they have. Not thread-safe. In
/// a forked child, calls fail and the destructor has no effect.
class registry {
   public:
    /// Claims a registry, and removes the entries of a killed owner.
    /// \param name  1 to 200 bytes
    /// \param how   bound, directory and text
    /// \throws error  errc::busy: another process owns it; errc::argument; errc::permission: a directory is not this
    ///                user's alone; errc::out_of_memory
    /// \throws std::bad_alloc
    explicit registry(std::string_view name, registry_options const& how = {})
        : how_{how},
          file_{detail::file_of(name, api) + ".names"},
          parent_{detail::names_directory(how.names.directory, api)} {
        names_ = {parent_.get(), api};
        if (!names_.claim(file_))
            detail::fail(errc::busy, api, message{file_.c_str()} << " has an owner: end it, or choose another name");
        directory_ = detail::private_directory(parent_.get(), file_.c_str(), api);
        ::unlinkat(directory_.get(), ".new", 0);
        detail::for_each_name(directory_.get(), api,
                              [&](char const* file, auto&&) { ::unlinkat(directory_.get(), file, 0); });
    }
    registry(registry const&) = delete;
    registry& operator=(registry const&) = delete;
    ~registry() {
        if (!process_.is_here()) return;
        for (auto const& [key, one] : entries_) ::unlinkat(directory_.get(), key.c_str(), 0);
        ::unlinkat(parent_.get(), file_.c_str(), AT_REMOVEDIR);
    }

    /// Publishes a share, in place of the former entry of this name.
    ///
    /// \param name   1 to 200 bytes
    /// \param share  an open share of memory that needs no files; owned on success. On failure the former entry stays.
    /// \throws error  errc::busy: too many bytes or allocations, which are being read; errc::argument: not a name,
    ///                memory that needs files, more than `most_bytes` or `most_allocations`, or a forked child;
    ///                errc::out_of_memory
    /// \throws std::bad_alloc
    void put(std::string_view name, shared&& share) {
        check_process();
        auto const key = detail::file_of(name, api);
        if (!share.is_open() || std::ranges::any_of(share.files(), [](int file) { return file >= 0; }))
            detail::fail(errc::argument, api,
                         message{key.c_str()}
                             << ": the share is closed, or requires files: pass an open share in named segments");
        std::uint64_t bytes = 0;
        for (auto const& m : share.descriptor().memories) bytes += m.allocation + detail::page_bytes();
        auto const count = share.descriptor().memories.size();
        if (bytes > how_.most_bytes || count > how_.most_allocations)
            detail::fail(errc::argument, api,
                         message{key.c_str()} << " has " << bytes << " bytes in " << std::uint64_t{count}
                                              << " allocations, and most_bytes is " << how_.most_bytes
                                              << ", most_allocations " << std::uint64_t{how_.most_allocations}
                                              << ": raise the one that it exceeds");
        auto made = detail::describe(share.descriptor(), how_.names, generation_ + 1, api);
        made.record.generation = generation_ + 1;
        auto const doomed = choose(key, bytes, count);
        map fresh;
        auto& kept = fresh.emplace(key, published{{}, bytes}).first->second;
        write(key, made);
        kept.share = std::move(share);
        // Nothing fails from here on.
        ++generation_;
        for (auto const at : doomed) erase(at);
        if (auto const former = entries_.find(key); former != entries_.end()) forget(former);
        entries_.merge(fresh);
        bytes_ += bytes, allocations_ += count;
    }
    /// Shares a tensor, an array or a column, and publishes it.
    /// \param name     1 to 200 bytes
    /// \param value    as for `share`
    /// \param options  as for `share`
    /// \param b        as for `share`
    /// \throws error  as for a share; errors of `share`
    template <class T, class BackEnd = host_back_end const&>
        requires(!std::same_as<std::remove_cvref_t<T>, shared> && back_end<std::remove_reference_t<BackEnd>>)
    void put(std::string_view name, T&& value, share_options const& options = {}, BackEnd&& b = host_only) {
        put(name, ipc::share(std::forward<T>(value), options, b));
    }
    /// Removes an entry. Readers keep what they have.
    /// \param name  its name
    /// \return      false: no such entry
    bool drop(std::string_view name) {
        check_process();
        auto const found = entries_.find(detail::file_of(name, api));
        if (found == entries_.end()) return false;
        erase(found);
        return true;
    }
    /// Returns the bytes of the published memory.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    /// Returns the number of entries.
    [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

   private:
    static constexpr char const* api = "ferry::ipc::registry";
    struct published {
        ipc::shared share;
        std::uint64_t bytes;
        [[nodiscard]] std::size_t count() const noexcept { return share.descriptor().memories.size(); }
    };
    using map = std::map<std::string, published, std::less<>>;

    void check_process() const {
        if (!process_.is_here())
            detail::fail(errc::argument, api, message{"a forked child has no registry: make one under another name"});
    }
    void erase(map::iterator at) noexcept {
        ::unlinkat(directory_.get(), at->first.c_str(), 0);
        forget(at);
    }
    void forget(map::iterator at) noexcept {
        bytes_ -= at->second.bytes, allocations_ -= at->second.count();
        entries_.erase(at);  // closes the share: later attaches fail
    }
    /// The entries to drop before `bytes` in `count` allocations are added under a name.
    [[nodiscard]] std::vector<map::iterator> choose(std::string const& key, std::uint64_t bytes, std::size_t count) {
        auto const former = entries_.find(key);
        std::uint64_t left = bytes_;
        std::size_t left_count = allocations_;
        auto const subtract = [&](published const& p) { left -= p.bytes, left_count -= p.count(); };
        auto const fits = [&] {
            return left <= how_.most_bytes - bytes && left_count <= how_.most_allocations - count;
        };
        if (former != entries_.end()) subtract(former->second);
        std::vector<map::iterator> doomed;
        if (fits()) return doomed;
        std::vector<std::pair<std::int64_t, map::iterator>> order;
        for (auto at = entries_.begin(); at != entries_.end(); ++at) {
            struct stat facts = {};  // the time of the last find is that of the last access
            if (at == former || at->second.share.readers() != 0) continue;
            static_cast<void>(::fstatat(directory_.get(), at->first.c_str(), &facts, AT_SYMLINK_NOFOLLOW));
            order.emplace_back(facts.st_atim.tv_sec * 1'000'000'000 + facts.st_atim.tv_nsec, at);
        }
        std::ranges::sort(order, {}, [](auto const& o) { return o.first; });
        for (auto const& [time, at] : order) {
            if (fits()) break;
            subtract(at->second);
            doomed.push_back(at);
        }
        if (!fits())
            detail::fail(errc::busy, api,
                         message{key.c_str()} << " has " << bytes << " bytes in " << std::uint64_t{count}
                                              << " allocations, and other processes read " << left << " bytes in "
                                              << std::uint64_t{left_count} << " of the " << how_.most_bytes << " and "
                                              << std::uint64_t{how_.most_allocations}
                                              << " permitted: drop entries, or raise most_bytes or most_allocations");
        return doomed;
    }
    void write(std::string const& key, detail::topic_slot const& s) {
        constexpr char const* passing = ".new";
        ::unlinkat(directory_.get(), passing, 0);
        unique_fd const f{
            ::openat(directory_.get(), passing, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
        if (!f) detail::fail_system(api, key.c_str());
        try {
            if (detail::exceeds_file_limit(sizeof s.record + s.bytes.size()))
                detail::fail_system(api, key.c_str(), EFBIG);
            detail::write_at(f.get(), 0, &s.record, sizeof s.record, api);
            detail::write_at(f.get(), sizeof s.record, s.bytes.data(), s.bytes.size(), api);
            if (::renameat(directory_.get(), passing, directory_.get(), key.c_str()) != 0)
                detail::fail_system(api, key.c_str());
        } catch (...) {
            ::unlinkat(directory_.get(), passing, 0);
            throw;
        }
    }

    registry_options how_;
    std::string file_;
    unique_fd parent_;
    detail::names_file names_{};
    unique_fd directory_{};
    map entries_{};
    std::uint64_t bytes_ = 0;
    std::size_t allocations_ = 0;
    // Of the last entry. Begins at random, so that a reader tells the entries of two owners apart.
    std::uint64_t generation_ = detail::fresh_id(api, std::source_location::current()) >> 8;
    detail::process_mark process_ = detail::process_mark::here();
};

namespace detail {

/// Opens the directory of a registry. Empty: it has no owner.
[[nodiscard]] inline unique_fd registry_directory(std::string_view name, topic_options const& how, char const* api) {
    auto const parent = names_directory(how.directory, api);
    auto const file = file_of(name, api) + ".names";
    if (!names_file{parent.get(), api}.is_claimed(file)) return {};
    return private_directory(parent.get(), file.c_str(), api);
}

/// Attaches an entry, again while it is replaced.
template <class T, class Attach>
[[nodiscard]] std::optional<T> find_entry(std::string_view registry_name, std::string_view name,
                                          topic_options const& how, char const* api, Attach attach) {
    auto const directory = registry_directory(registry_name, how, api);
    auto const file = file_of(name, api);
    for (std::uint64_t last = 0; directory;) {
        auto const f = open_own(directory.get(), file.c_str(), O_RDONLY, api);
        topic_record r;
        struct stat facts = {};
        if (!f) break;
        auto const damaged = [&] {
            fail(errc::bad_descriptor, api, message{file.c_str()} << " is damaged: call put() for the entry again");
        };
        if (!read_at(f.get(), 0, &r, sizeof r) || ::fstat(f.get(), &facts) != 0 ||
            facts.st_size - off_t{sizeof r} < off_t{r.length} || r.length > most_descriptor)
            damaged();
        std::vector<std::byte> bytes(r.length);
        if (!read_at(f.get(), sizeof r, bytes.data(), bytes.size())) damaged();
        timespec const now[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
        ::futimens(f.get(), now);  // the owner drops the least recently found entries first
        try {
            return attach(wire::from_bytes(bytes));
        } catch (error const& e) {
            if (e.code() != errc::exporter_gone) throw;
            if (std::exchange(last, r.generation) == r.generation) break;  // dropped, or its owner has been killed
        }
    }
    return {};
}

}  // namespace detail

/// Attaches the tensor that a registry has under a name.
///
/// \param registry_name  name of the registry
/// \param name           name of the entry
/// \param how            as for `attach`
/// \param b              back end; a `handle_back_end` for device memory
/// \param names          directory
/// \return               the tensor; empty: no such entry
/// \throws error  errors of `attach`; errc::permission: the directory is not this user's alone
[[nodiscard]] inline std::optional<managed_tensor> find_tensor(std::string_view registry_name, std::string_view name,
                                                               attach_options const& how = {}, handle_ref b = host_only,
                                                               topic_options const& names = {}) {
    return detail::find_entry<managed_tensor>(registry_name, name, names, "ferry::ipc::find_tensor",
                                              [&](auto const& from) { return ipc::attach(from, how, b); });
}
/// Overload for columns.
/// \param registry_name  name of the registry
/// \param name           name of the entry
/// \param how            as for `attach_column`
/// \param b              back end
/// \param names          directory
/// \return               the column; empty: no such entry
/// \throws error  as for tensors
[[nodiscard]] inline std::optional<column> find_column(std::string_view registry_name, std::string_view name,
                                                       attach_options const& how = {}, handle_ref b = host_only,
                                                       topic_options const& names = {}) {
    return detail::find_entry<column>(registry_name, name, names, "ferry::ipc::find_column",
                                      [&](auto const& from) { return ipc::attach_column(from, how, b); });
}
/// Returns the names of the entries of a registry.
/// \param registry_name  name of the registry
/// \param names          directory
/// \throws error  errc::permission: the directory is not this user's alone
/// \throws std::bad_alloc
[[nodiscard]] inline std::vector<std::string> entries(std::string_view registry_name, topic_options const& names = {}) {
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
