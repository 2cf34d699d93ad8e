// ferry: subscriber, which follows the frames of a publisher.
#pragma once

#include <ferry/fwd.hpp>
#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/attach_column.hpp>
#include <ferry/ipc/detail/topic_file.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/wire/binary.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>  // the name is owned
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>  // descriptors of the slots

namespace FERRY_NAMESPACE::ipc {

/// A frame of a topic.
template <class T>
struct frame {
    T value;                       ///< `managed_tensor` or `column`; while it exists its slot is not written
    std::uint64_t generation = 0;  ///< increases; numbers that are missing are frames that this subscriber missed
};

/// Follows a name: before it has a publisher, and from one publisher to the next. Keeps the mapping of each slot. The
/// frames may outlive it. Not thread-safe.
class subscriber {
   public:
    /// Does not require that the name has a publisher.
    /// \param name  1 to 200 bytes, as the publisher's
    /// \param how   directory
    /// \throws error  errc::argument: not a name; errc::permission: the directory is not this user's alone
    explicit subscriber(std::string_view name, topic_options const& how = {})
        : name_{detail::file_of(name, api)}, path_{how.directory} {
        open_directory();
    }
    /// Follows the publisher that has sent `publisher::files` over a socket, and no other.
    /// \param files  the received files, in order; owned on success
    /// \throws error  errc::bad_descriptor: the first is not the file of a topic
    explicit subscriber(std::vector<unique_fd>&& files) {
        if (files.empty() || !open(std::move(files[0])))
            detail::fail(errc::bad_descriptor, api,
                         message{"expected the files of a publisher, got "} << std::uint64_t{files.size()}
                                                                            << " others: send publisher::files");
        files_ = std::move(files);
    }

    /// Returns the newest tensor that this subscriber has not returned yet, and waits for one.
    ///
    /// \param limit  longest wait
    /// \param how    as for `attach`; default session: that of this subscriber, which may be any but that of the
    ///               publisher, whose attaches are not counted; default files: those received
    /// \param b      back end; a `handle_back_end` for device memory
    /// \return       the frame; empty: none within `limit`
    /// \throws error  errc::bad_descriptor: the file is damaged; errors of `attach`, but for those of a publisher that
    ///                has ended
    /// \throws std::bad_alloc
    [[nodiscard]] std::optional<frame<managed_tensor>> next(std::chrono::nanoseconds limit,
                                                            attach_options const& how = {}, handle_ref b = host_only) {
        return next_by<managed_tensor>(limit, how, [&](auto& from, auto& o) { return ipc::attach(from, o, b); });
    }
    /// Overload for columns.
    /// \param limit  longest wait
    /// \param how    as for `attach_column`
    /// \param b      back end
    /// \return       the frame; empty: none within `limit`
    /// \throws error  as for tensors
    [[nodiscard]] std::optional<frame<column>> next_column(std::chrono::nanoseconds limit,
                                                           attach_options const& how = {}, handle_ref b = host_only) {
        return next_by<column>(limit, how, [&](auto& from, auto& o) { return ipc::attach_column(from, o, b); });
    }
    /// Returns whether a publisher has the name: not before `next` has found its file.
    [[nodiscard]] bool has_publisher() const noexcept {
        return file_ && detail::is_locked(file_.get(), detail::owner_byte);
    }

   private:
    static constexpr char const* api = "ferry::ipc::subscriber";
    struct candidate {
        wire::descriptor const* from;
        std::span<int const> files;
        off_t at;
        std::uint64_t generation, stamp;
    };
    struct slot_descriptor {
        std::uint64_t stamp = 0;  // 0: not read yet
        wire::descriptor from{};
        std::vector<int> files{};
    };

    template <class T, class Attach>
    [[nodiscard]] std::optional<frame<T>> next_by(std::chrono::nanoseconds limit, attach_options how, Attach attach) {
        auto const end = detail::deadline(limit);
        if (how.session == nullptr) how.session = &session_;
        bool const has_files = !how.files.empty();
        do {
            for (int tries = 0; tries < 2; ++tries) {  // the second with the descriptor that is in the file now
                auto const c = look();
                if (!c) break;
                if (!has_files) how.files = c->files;
                try {
                    T value = attach(*c->from, how);
                    // Last: from here on the slot is kept until `value` ends.
                    if (is_current(*c)) {
                        seen_ = c->generation;
                        return frame<T>{std::move(value), seen_};
                    }
                } catch (error const& e) {
                    if (e.code() != errc::exporter_gone && is_current(*c)) throw;
                }
                described_[slot()].stamp = 0;
            }
        } while (wait(end));
        return {};
    }
    /// Finds a frame that is newer than the last.
    [[nodiscard]] std::optional<candidate> look() {
        if (file_ && !detail::read_at(file_.get(), detail::latest_at, &head_.latest, sizeof head_.latest))
            fail_damaged();
        if (!is_newer() && !has_name(file_)) open_name();
        if (!is_newer()) return {};
        auto& d = described_[slot()];
        candidate c{&d.from, d.files, static_cast<off_t>(sizeof head_ + std::size_t{slot()} * head_.capacity),
                    head_.generation(), d.stamp};
        if (d.stamp == 0) try {
                detail::topic_record r;
                if (!detail::read_at(file_.get(), c.at, &r, sizeof r) || r.generation != c.generation) return {};
                c.stamp = r.stamp;
                if (r.length > detail::most_descriptor || r.length > head_.capacity - sizeof r) fail_damaged();
                bytes_.resize(r.length);
                if (!detail::read_at(file_.get(), c.at + off_t{sizeof r}, bytes_.data(), bytes_.size())) fail_damaged();
                d.from = wire::from_bytes(bytes_);
                d.files.clear();
                if (r.files != 0 && (r.first_file > files_.size() || r.files > files_.size() - r.first_file))
                    detail::fail(errc::permission, api,
                                 message{"the memory needs file descriptors, and this subscriber has none for it: pass "
                                         "it the files that publisher::files returns"});
                for (std::size_t i = 0; i < r.files; ++i) d.files.push_back(files_[r.first_file + i].get());
                if (!is_current(c)) return {};
                d.stamp = r.stamp, c.files = d.files;
            } catch (error const&) {
                if (is_current(c)) throw;
                return {};
            }
        return c;
    }
    [[nodiscard]] bool is_current(candidate const& c) const noexcept {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        std::uint64_t now[2];  // generation and stamp
        return detail::read_at(file_.get(), c.at, now, sizeof now) && now[0] == c.generation && now[1] == c.stamp;
    }
    /// Waits until the file or the names change. \return  false: the time is over
    [[nodiscard]] bool wait(std::chrono::steady_clock::time_point end) const {
        // A second: if another process has removed the file, nothing changes in it any more.
        auto const left =
            std::min<std::chrono::nanoseconds>(end - std::chrono::steady_clock::now(), std::chrono::seconds{1});
        if (left <= std::chrono::nanoseconds{0}) return false;
        if (file_) bell_.wait(static_cast<std::uint32_t>(head_.latest), left);
        else names_.wait(arrivals_, left, api);
        return true;
    }
    [[nodiscard]] bool is_newer() const noexcept { return file_ && slot() < head_.slots && head_.generation() > seen_; }
    /// Whether a file has not been removed, and its publisher has not ended.
    [[nodiscard]] bool has_name(unique_fd const& f) const noexcept {
        struct stat its = {};
        return f && ::fstat(f.get(), &its) == 0 && its.st_nlink != 0 && slot() != detail::has_moved &&
               slot() != detail::has_ended;
    }
    void open_directory() {
        directory_ = detail::names_directory(path_, api);
        names_ = {directory_.get(), api};
    }
    /// Opens the file that has the name now, if it is another one.
    void open_name() {
        if (name_.empty()) return;
        struct stat folder = {};
        if (::fstat(directory_.get(), &folder) != 0 || folder.st_nlink == 0) open_directory();
        arrivals_ = names_.arrivals();
        auto found = detail::open_own(directory_.get(), name_.c_str(), O_RDONLY, api);
        struct stat its = {}, mine = {};
        if (!found || (file_ && ::fstat(found.get(), &its) == 0 && ::fstat(file_.get(), &mine) == 0 &&
                       its.st_ino == mine.st_ino && its.st_dev == mine.st_dev))
            return;
        if (!open(std::move(found))) detail::fail_other(name_, api);
    }
    [[nodiscard]] bool open(unique_fd file) {
        detail::topic_head head;
        struct stat facts = {};
        if (!detail::read_at(file.get(), 0, &head, sizeof head) || head.magic != detail::topic_head::the_magic ||
            head.slots > detail::most_slots || head.capacity < sizeof(detail::topic_record) ||
            ::fstat(file.get(), &facts) != 0)
            return false;
        detail::futex_word bell{file.get(), static_cast<std::size_t>(detail::latest_at), api};
        described_.assign(head.slots, slot_descriptor{});
        if (head.stream != head_.stream) seen_ = 0;
        head_ = head, bell_ = std::move(bell), file_ = std::move(file);
        return true;
    }
    [[noreturn]] FERRY_COLD void fail_damaged() const {
        detail::fail(errc::bad_descriptor, api, message{"the file of the topic is damaged: restart its publisher"});
    }
    [[nodiscard]] unsigned slot() const noexcept { return head_.slot(); }

    std::string name_{}, path_{};
    unique_fd directory_{};
    detail::names_file names_{};
    session session_{};
    std::vector<unique_fd> files_{};
    unique_fd file_{};
    detail::futex_word bell_{};
    detail::topic_head head_{};
    std::vector<slot_descriptor> described_{};
    std::vector<std::byte> bytes_{};
    std::uint64_t seen_ = 0;
    std::uint32_t arrivals_ = 0;
};

/// Returns the names that have a publisher.
/// \param how  directory
/// \throws error  errc::permission: the directory is not this user's alone
/// \throws std::bad_alloc
[[nodiscard]] inline std::vector<std::string> topics(topic_options const& how = {}) {
    constexpr auto api = "ferry::ipc::topics";
    auto const directory = detail::names_directory(how.directory, api);
    std::vector<std::string> names;
    detail::for_each_name(directory.get(), api, [&](char const* file, std::string name) {
        unique_fd const f{::openat(directory.get(), file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
        if (!f && (errno == EMFILE || errno == ENFILE)) detail::fail_system(api, file);
        if (f && detail::is_locked(f.get(), detail::owner_byte)) names.push_back(std::move(name));
    });
    std::ranges::sort(names);
    return names;
}

}  // namespace FERRY_NAMESPACE::ipc
