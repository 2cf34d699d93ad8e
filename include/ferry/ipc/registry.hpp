// ferry: registry, which publishes tensors and columns under names, bounded in bytes.
#pragma once

#include <ferry/ipc/share_column.hpp>

#include <limits>
#include <string_view>

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

/// Publishes tensors and columns under names. A new entry replaces the one of the same name. When the entries exceed
/// the maximum number of bytes or allocations, those that no process reads are dropped, the least recently found first.
///
/// One process at a time owns a registry; its entries end with it, and readers keep what they have. Not thread-safe. In
/// a forked child, calls fail and the destructor has no effect.
class registry {
   public:
    /// Claims a registry, and removes the entries of a killed owner.
    /// \param name  1 to 200 bytes
    /// \param how   limits, directory and text
    /// \throws error  errc::busy: another process owns it; errc::argument; errc::permission: a directory is not this
    ///                user's alone; errc::out_of_memory
    /// \throws std::bad_alloc
    FERRY_INLINE explicit registry(std::string_view name, registry_options const& how = {});
    registry(registry const&) = delete;
    registry& operator=(registry const&) = delete;
    FERRY_INLINE ~registry();

    /// Publishes a share, in place of the former entry of this name.
    ///
    /// \param name   1 to 200 bytes
    /// \param share  an open share of memory that needs no files; owned on success. On failure the former entry stays.
    /// \throws error  errc::busy: too many bytes or allocations, which are being read; errc::argument: not a name,
    ///                memory that needs files, more than `most_bytes` or `most_allocations`, or a forked child;
    ///                errc::out_of_memory
    /// \throws std::bad_alloc
    FERRY_INLINE void put(std::string_view name, shared&& share);
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
    /// \return      false if there is no such entry
    FERRY_INLINE bool drop(std::string_view name);
    /// Returns the size of the published memory in bytes.
    [[nodiscard]] FERRY_INLINE std::uint64_t bytes() const noexcept;
    /// Returns the number of entries.
    [[nodiscard]] FERRY_INLINE std::size_t size() const noexcept;

   private:
    struct state;
    std::unique_ptr<state> state_;
};

/// Attaches a tensor that is published in a registry.
///
/// \param registry_name  name of the registry
/// \param name           name of the entry
/// \param how            as for `attach`
/// \param b              back end; a `handle_back_end` for device memory
/// \param names          directory
/// \return               the tensor; empty if there is no such entry
/// \throws error  errors of `attach`; errc::permission: the directory is not this user's alone
[[nodiscard]] FERRY_INLINE std::optional<managed_tensor> find_tensor(std::string_view registry_name,
                                                                     std::string_view name,
                                                                     attach_options const& how = {},
                                                                     handle_ref b = host_only,
                                                                     topic_options const& names = {});
/// Overload for columns.
/// \param registry_name  name of the registry
/// \param name           name of the entry
/// \param how            as for `attach_column`
/// \param b              back end
/// \param names          directory
/// \return               the column; empty if there is no such entry
/// \throws error  as for tensors
[[nodiscard]] FERRY_INLINE std::optional<column> find_column(std::string_view registry_name, std::string_view name,
                                                             attach_options const& how = {}, handle_ref b = host_only,
                                                             topic_options const& names = {});
/// Returns the names of the entries of a registry.
/// \param registry_name  name of the registry
/// \param names          directory
/// \throws error  errc::permission: the directory is not this user's alone
/// \throws std::bad_alloc
[[nodiscard]] FERRY_INLINE std::vector<std::string> entries(std::string_view registry_name,
                                                            topic_options const& names = {});

}  // namespace FERRY_NAMESPACE::ipc

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/ipc/detail/registry.ipp>
#endif
