// Sharing with other processes: share, attach, Shared, Publisher, Subscriber, Registry, find, send and receive.
#include "package.hpp"

#include <ferry/column.hpp>
#include <ferry/ipc.hpp>
#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/registry.hpp>
#include <ferry/ipc/send.hpp>
#include <ferry/ipc/subscriber.hpp>
#include <ferry/wire/binary.hpp>
#include <ferry/wire/json.hpp>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>

namespace package {
namespace {

using namespace nb::literals;
using std::chrono::nanoseconds;
namespace ipc = ferry::ipc;

/// The session of this process. Never destroyed, because tensors may outlive the interpreter; `close_all` runs when the
/// interpreter ends.
ipc::session& session() {
    static auto& one = *new ipc::session;
    return one;
}

/// A value that one thread after another uses, without the GIL: `f` must not use Python objects.
template <class T>
class in_turn {
   public:
    template <class... Arguments>
    explicit in_turn(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}
    in_turn(in_turn const&) = delete;
    in_turn(in_turn&&) = delete;
    template <class F>
    auto use(F f) {
        ferry::python::without_gil const unlocked;
        std::lock_guard const locked{lock_};
        return f(value_);
    }

   private:
    T value_;
    std::mutex lock_;
};

/// The seconds of a timeout; None: no limit.
nanoseconds limit_from(nb::handle timeout) {
    double const seconds = timeout.is_none() ? HUGE_VAL : PyFloat_AsDouble(timeout.ptr());
    if (PyErr_Occurred() != nullptr) throw nb::python_error{};
    if (std::isnan(seconds)) throw nb::value_error("a timeout is a number of seconds, or None");
    return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>{std::clamp(seconds, 0.0, 1e9)});
}

/// Calls `wait` with at most 100 ms, until it returns something or the limit is over. Handles signals in between.
template <class Wait>
auto wait_for(nb::handle timeout, Wait wait) {
    auto const end = std::chrono::steady_clock::now() + limit_from(timeout);
    for (;;) {
        auto const left =
            std::clamp<nanoseconds>(end - std::chrono::steady_clock::now(), {}, std::chrono::milliseconds{100});
        auto got = wait(left);
        if (got || left == left.zero()) return got;
        if (PyErr_CheckSignals() != 0) throw nb::python_error{};
    }
}
[[noreturn]] void time_out(char const* text) {
    PyErr_SetString(PyExc_TimeoutError, text);
    throw nb::python_error{};
}

ferry::data_type dtype_from(std::string const& name) {
    for (unsigned code = 0; code <= ferry::abi::code::bcomplex; ++code)
        for (auto const bits : std::initializer_list<std::uint8_t>{4, 6, 8, 16, 32, 64, 128})
            if (ferry::data_type const made{ferry::type_code{static_cast<std::uint8_t>(code)}, bits};
                ferry::is_valid(made) && (ferry::inplace_text{} << made).c_str() == name)
                return made;
    throw std::invalid_argument{"'" + name + "' is not the name of a dtype, such as 'float32'"};
}

template <class Space>
tensor allocate(std::vector<std::int64_t> const& shape, ferry::data_type dtype, std::int64_t bytes, Space&& space) {
    ferry::buffer<std::remove_cvref_t<Space>> memory{static_cast<std::size_t>(bytes), space};
    void* const data = memory.data();
    ferry::tensor_view const v{data, dtype, shape, ferry::strides_view{}};
    return {ferry::make_managed(std::move(memory), v), ferry::already_ready};
}

tensor empty(nb::handle shape, std::string const& dtype, nb::handle device, bool is_shared) {
    std::vector<std::int64_t> extents;
    if (!nb::try_cast(PyIndex_Check(shape.ptr()) ? nb::object(nb::make_tuple(shape)) : nb::borrow(shape), extents))
        throw nb::type_error("a shape is an int or a sequence of ints");
    auto const where = ferry::python::as_device(device.ptr());
    if (!where) throw nb::python_error{};
    if (where->type != ferry::device_type::cpu)
        throw ferry::error{ferry::errc::no_backend, "empty", ferry::message{"only the CPU has memory here"}};
    auto const type = dtype_from(dtype);
    std::int64_t bits = ferry::bits_per_element(type);
    for (auto const extent : extents)
        if (extent < 0 || __builtin_mul_overflow(bits, extent, &bits))
            throw std::invalid_argument{"an extent is negative, or the shape has too many bytes"};
    ferry::python::without_gil const unlocked;
    auto const bytes = bits / 8 + (bits % 8 != 0 ? 1 : 0);
    return is_shared ? allocate(extents, type, bytes, ipc::shared_space{session()})
                     : allocate(extents, type, bytes, ferry::host_space{});
}

/// Returns a Tensor or a Column: the object itself, or what imports it.
nb::object value_of(nb::handle x) {
    if (find<tensor>(x) != nullptr || find<ferry::column>(x) != nullptr) return nb::borrow(x);
    for (auto const* name : {"__arrow_c_array__", "__arrow_c_device_array__", "__arrow_c_stream__"})
        if (nb::hasattr(x, name)) return nb::type<ferry::column>().attr("from_arrow")(x);
    return nb::type<tensor>().attr("from_dlpack")(x);
}

nb::object object_of(ipc::item&& one) {
    if (auto* const c = std::get_if<ferry::column>(&one)) return nb::cast(std::move(*c));
    return nb::cast(tensor{std::get<ferry::managed_tensor>(std::move(one)), ferry::already_ready});
}

nb::object attached(ferry::wire::descriptor const& d, std::span<int const> files) {
    ipc::attach_options const how{.session = &session(), .files = files};
    bool const is_list = std::holds_alternative<ferry::wire::list>(d.root);
    auto items = [&] {
        ferry::python::without_gil const unlocked;
        std::vector<ipc::item> made;
        if (is_list) made = ipc::attach_list(d, how);
        else if (std::holds_alternative<ferry::wire::node>(d.root)) made.emplace_back(ipc::attach_column(d, how));
        else made.emplace_back(ipc::attach(d, how));
        return made;
    }();
    if (!is_list) return object_of(std::move(items[0]));
    nb::list all;
    for (auto& one : items) all.append(object_of(std::move(one)));
    return all;
}

/// Shares what `x` becomes, and replaces it by the shared memory in this process.
ipc::shared share_object(nb::object& x, nb::handle copy) {
    ipc::share_options const options{.session = &session(), .copy = ferry::python::detail::copy_from(copy.ptr())};
    bool const is_list = nb::isinstance<nb::list>(x) || nb::isinstance<nb::tuple>(x);
    std::vector<ipc::item> items;
    nb::list values;
    for (nb::handle const one : is_list ? nb::object(x) : nb::object(nb::make_tuple(x))) {
        auto const value = value_of(one);
        values.append(value);
        if (auto const* const c = find<ferry::column>(value)) items.emplace_back(*c);
        else items.emplace_back(ferry::to_dlpack(*find<tensor>(value)));
    }
    auto made = [&] {
        ferry::python::without_gil const unlocked;
        if (is_list) return ipc::share(std::move(items), options);
        auto* const c = std::get_if<ferry::column>(&items[0]);
        return c != nullptr ? ipc::share(*c, options)
                            : ipc::share(std::get<ferry::managed_tensor>(std::move(items[0])), options);
    }();
    x = made.copied() ? attached(made.descriptor(), {}) : is_list ? nb::object(values) : nb::object(values[0]);
    return made;
}

/// The Python object of a share, which a Publisher or Registry takes away.
class shared {
   public:
    shared(nb::object x, ipc::shared&& s) : copied_{s.copied()}, share_{std::move(s)}, tensor_{std::move(x)} {}
    static std::unique_ptr<shared> make(nb::object x, nb::handle copy) {
        auto made = share_object(x, copy);
        return std::make_unique<shared>(std::move(x), std::move(made));
    }

    /// Calls `f` with the share. \throws std::invalid_argument  a Publisher or Registry has it
    template <class F>
    auto with(F f) {
        return share_.use([&](ipc::shared& s) {
            if (!s) throw std::invalid_argument{"a Publisher or Registry has this share: share the array again"};
            return f(s);
        });
    }
    /// Takes the share, for a Publisher or Registry, whose readers have no lists.
    [[nodiscard]] ipc::shared take() {
        return with([](auto& s) { return require_one(s), std::move(s); });
    }
    static void require_one(ipc::shared const& s) {
        if (std::holds_alternative<ferry::wire::list>(s.descriptor().root))
            throw std::invalid_argument{"a topic or registry has no lists: share and publish each value by itself"};
    }
    void give_back(ipc::shared&& s) {
        share_.use([&](auto& mine) { mine = std::move(s); });
    }

    [[nodiscard]] nb::bytes descriptor() {
        auto const bytes = with([](auto& s) { return ferry::wire::to_bytes(s.descriptor()); });
        return nb::bytes{bytes.data(), bytes.size()};
    }
    [[nodiscard]] std::string json() {
        return with([](auto& s) { return ferry::wire::to_json(s.descriptor()); });
    }
    [[nodiscard]] nb::object memory() {
        return with([](auto&) {}), tensor_;
    }
    [[nodiscard]] bool copied() const { return copied_; }
    void close() {
        bool const is_removed = share_.use([](auto& s) { return !s || s.close(); });
        if (!is_removed && PyErr_WarnEx(PyExc_ResourceWarning,
                                        "the name stays in /dev/shm: this process may no longer remove it", 1) != 0)
            throw nb::python_error{};
    }
    [[nodiscard]] bool wait_for_readers(nb::handle timeout) {
        return wait_for(timeout,
                        [&](nanoseconds left) { return with([&](auto& s) { return s.wait_for_readers(left); }); });
    }

   private:
    bool copied_;
    in_turn<ipc::shared> share_;
    nb::object tensor_;  // the shared memory in this process
};

ferry::ipc::topic_options options_for(nb::handle directory) {
    std::string path;
    if (!directory.is_none()) {
        auto const bytes = nb::borrow<nb::bytes>(nb::module_::import_("os").attr("fsencode")(directory));
        path = {bytes.c_str(), bytes.size()};
        if (path.empty() || path.find('\0') != std::string::npos)
            throw std::invalid_argument{"a directory has a name without null characters; None is the default one"};
    }
    return {.directory = std::move(path),
            .text = [](ferry::wire::descriptor const& d) { return ferry::wire::to_json(d); }};
}

class publisher {
   public:
    publisher(std::string const& name, nb::handle slots, nb::handle directory) {
        if (name.empty()) throw nb::value_error("a topic has a name: pass one such as \"rig/left\"");
        std::vector<shared*> from;
        std::vector<ipc::shared> taken;
        nb::object const all = checked(PySequence_Tuple(slots.ptr()));
        for (nb::handle const slot : all) {
            from.push_back(find<shared>(slot));
            if (from.back() == nullptr)
                throw nb::type_error("expected a list of shares: pass [ferry.share(x) for x in arrays]");
            memory_.push_back(from.back()->memory());
        }
        auto const how = options_for(directory);
        try {
            for (auto* const s : from) taken.push_back(s->take());
            ferry::python::without_gil const unlocked;
            publisher_ = std::make_unique<in_turn<ipc::publisher>>(name, std::move(taken), how);
        } catch (...) {
            for (std::size_t i = 0; i < taken.size(); ++i) from[i]->give_back(std::move(taken[i]));
            throw;
        }
    }

    [[nodiscard]] unsigned begin(nb::handle timeout) {
        if (is_begun_.exchange(true))
            throw nb::value_error("a slot of this Publisher is being written: end its block first");
        try {
            auto const slot = wait_for(
                timeout, [&](nanoseconds left) { return publisher_->use([&](auto& p) { return p.begin(left); }); });
            if (!slot) time_out("readers have all slots: drop the frame, or share more slots");
            return *slot;
        } catch (...) {
            is_begun_ = false;
            throw;
        }
    }
    void end(std::optional<unsigned> slot) {
        struct last {
            std::atomic<bool>& is_begun;
            ~last() { is_begun = false; }
        } const after{is_begun_};  // another thread begins a frame after this one has been published
        if (slot) publisher_->use([&](auto& p) { p.publish(*slot); });
    }
    [[nodiscard]] std::uint64_t generation() {
        return publisher_->use([](auto& p) { return p.generation(); });
    }
    [[nodiscard]] nb::object const& memory(unsigned slot) const { return memory_[slot]; }

   private:
    std::unique_ptr<in_turn<ipc::publisher>> publisher_;
    std::vector<nb::object> memory_;  // of the slots
    std::atomic<bool> is_begun_ = false;
};

/// What `Publisher.begin` returns: a slot while its block runs.
class slot {
   public:
    slot(nb::object owner, nb::object timeout) : owner_{std::move(owner)}, timeout_{std::move(timeout)} {}
    slot(slot const&) = delete;
    ~slot() {
        if (number_ && owner_.is_valid()) owner().end({});  // of a block that never ended
    }
    void enter() {
        if (number_) throw nb::value_error("the block of this slot has begun: call begin again");
        number_ = owner().begin(timeout_);
    }
    void exit(nb::handle error) {
        auto const number = checked_number();
        auto const ended = std::exchange(owner_, {});
        require<publisher>(ended)->end(error.is_none() ? std::optional{number} : std::nullopt);
    }
    [[nodiscard]] nb::object memory() { return owner().memory(checked_number()); }

   private:
    [[nodiscard]] publisher& owner() {
        if (!owner_.is_valid()) throw nb::value_error("the block of this slot has ended: call begin again");
        return *require<publisher>(owner_);
    }
    [[nodiscard]] unsigned checked_number() {
        static_cast<void>(owner());
        if (!number_) throw nb::value_error("a slot is written in its block only: with camera.begin() as slot");
        return *number_;
    }
    nb::object owner_, timeout_;  // no owner: the block has ended
    std::optional<unsigned> number_;
};

struct frame {
    nb::object value;
    std::uint64_t generation;
};

class subscriber {
   public:
    subscriber(std::string const& name, nb::handle directory) : subscriber_{name, options_for(directory)} {}

    [[nodiscard]] frame next(nb::handle timeout) {
        auto got = wait_for(timeout,
                            [&](nanoseconds left) { return subscriber_.use([&](auto& s) { return take(s, left); }); });
        if (!got) time_out("no frame was published");
        return {object_of(std::move(got->value)), got->generation};
    }

   private:
    /// Takes a tensor or a column: of the kind of the last frame, and if that is another one, of the other kind.
    std::optional<ipc::frame<ipc::item>> take(ipc::subscriber& s, nanoseconds left) {
        auto const as_item = [](auto&& f) -> std::optional<ipc::frame<ipc::item>> {
            if (!f) return {};
            return ipc::frame<ipc::item>{std::move(f->value), f->generation};
        };
        auto const next_of_kind = [&] { return is_column_ ? as_item(s.next_column(left)) : as_item(s.next(left)); };
        try {
            return next_of_kind();
        } catch (ferry::error const& e) {
            if (e.code() != ferry::errc::argument) throw;
        }
        is_column_ = !is_column_;
        return next_of_kind();
    }

    in_turn<ipc::subscriber> subscriber_;
    bool is_column_ = false;
};

class registry {
   public:
    registry(std::string const& name, std::optional<std::uint64_t> most_bytes, nb::handle directory)
        : name_{name}, how_{options_for(directory)}, registry_{name, options(how_, most_bytes)} {}

    void put(std::string const& name, nb::object x) {
        auto* const from = find<shared>(x);
        auto share = from != nullptr ? from->take() : share_object(x, nb::none());
        shared::require_one(share);
        try {
            registry_.use([&](auto& r) { r.put(name, std::move(share)); });
        } catch (...) {
            if (from != nullptr) from->give_back(std::move(share));
            throw;
        }
    }
    bool drop(std::string const& name) {
        return registry_.use([&](auto& r) { return r.drop(name); });
    }
    [[nodiscard]] std::size_t size() {
        return registry_.use([](auto& r) { return r.size(); });
    }
    [[nodiscard]] nb::list names() {
        auto const all = registry_.use([&](auto&) { return ipc::entries(name_, how_); });
        nb::list list;
        for (auto const& one : all) list.append(nb::str(one.data(), one.size()));
        return list;
    }

   private:
    static ipc::registry_options options(ipc::topic_options const& how, std::optional<std::uint64_t> most_bytes) {
        ipc::registry_options made{.names = how};
        if (most_bytes) made.most_bytes = *most_bytes;
        return made;
    }
    std::string name_;
    ipc::topic_options how_;
    in_turn<ipc::registry> registry_;
};

nb::object find_entry(std::string const& registry_name, std::string const& name, nb::handle directory) {
    auto const names = options_for(directory);
    ipc::attach_options const how{.session = &session()};
    std::optional<ipc::item> got;
    {
        ferry::python::without_gil const unlocked;
        try {
            if (auto t = ipc::find_tensor(registry_name, name, how, ferry::host_only, names)) got = std::move(*t);
        } catch (ferry::error const& e) {
            if (e.code() != ferry::errc::argument) throw;
            if (auto c = ipc::find_column(registry_name, name, how, ferry::host_only, names)) got = std::move(*c);
        }
    }
    return got ? object_of(std::move(*got)) : nb::none();
}

nb::object attach(nb::handle source, nb::handle device) {
    auto const bytes = ferry::python::from_buffer(source.ptr());
    auto const v = bytes.view();
    if (!v.is_contiguous(ferry::contiguity::row_major))
        throw nb::type_error("expected a descriptor: bytes (Shared.descriptor)");
    auto value = attached(
        ferry::wire::from_bytes({static_cast<std::byte const*>(v.data()), static_cast<std::size_t>(v.nbytes())}), {});
    if (device.is_none()) return value;
    if (nb::isinstance<nb::list>(value))
        throw nb::value_error("a list of shares has no device: attach it without one, then move its items");
    return find<tensor>(value) != nullptr ? nb::type<tensor>().attr("from_dlpack")(value, "device"_a = device)
                                          : value.attr("to")(device);
}

/// The limits of a call with a socket, which are those of the socket.
ipc::transfer_limits limits_of(nb::handle socket) {
    return {.patience = std::chrono::duration_cast<std::chrono::milliseconds>(limit_from(socket.attr("gettimeout")()))};
}

void send(nb::handle socket, shared& s) {
    int const file = nb::cast<int>(socket.attr("fileno")());
    auto const limits = limits_of(socket);
    s.with([&](auto& share) {
        auto files = share.files();
        std::erase(files, -1);
        ipc::send(file, ferry::wire::to_bytes(share.descriptor()), files, limits);
    });
}

nb::object receive(nb::handle socket) {
    int const file = nb::cast<int>(socket.attr("fileno")());
    auto const limits = limits_of(socket);
    auto const got = [&] {
        ferry::python::without_gil const unlocked;
        return ipc::receive(file, limits);
    }();
    std::vector<int> files;
    for (auto const& f : got.files) files.push_back(f.get());
    return attached(ferry::wire::from_bytes(got.bytes), files);
}

}  // namespace

void define_ipc(nb::module_& m) {
    nb::class_<shared>(
        m, "Shared", nb::is_weak_referenceable(),
        "An array, a table or a list of them that other processes can attach. Created by share; closed when it is deleted.")
        .def_prop_ro("descriptor", &shared::descriptor, "The descriptor for attach, as bytes.")
        .def("json", &shared::json, "The descriptor as JSON in a str, for readers without ferry.")
        .def_prop_ro(
            "tensor", &shared::memory,
            "The shared memory in this process, a Tensor, a Column or a list: that of the argument, or its copy.")
        .def_prop_ro("copied", &shared::copied, "Whether the memory is a copy of the argument, made by share.")
        .def("close", &shared::close,
             "Refuse new attaches in every process; existing ones stay valid. No effect if it is closed.")
        .def("wait_for_readers", &shared::wait_for_readers, "timeout"_a.none() = nb::none(),
             "Wait until no other process has the memory; False after `timeout` seconds.")
        .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
        .def("__exit__", [](shared& self, nb::args) { self.close(); })
        .def("__reduce_ex__", [](nb::handle, nb::handle) -> nb::object {
            throw nb::type_error(
                "a share cannot be pickled: send its descriptor, and call ferry.attach(descriptor) in the other process");
        });
    m.def(
        "share", &shared::make, nb::arg(), nb::kw_only(), "copy"_a.none() = nb::none(),
        "Share an array, a table or a list of them with other processes of this user, until the result is closed or deleted. Memory that is "
        "not shared yet is copied once; copy=False refuses that, and copy=True always copies.");
    m.def("empty", &empty, "shape"_a, "dtype"_a, nb::kw_only(), "device"_a = "cpu", "shared"_a = false,
          "A Tensor whose elements are not initialised. With `shared`, in memory that share does not copy.");
    m.def(
        "attach", &attach, "descriptor"_a, nb::kw_only(), "device"_a.none() = nb::none(),
        "Attach what another process shares, without a copy: a Tensor, a Column, or a list of them. ValueError for an invalid descriptor, "
        "OSError if the exporter has closed the share or has exited.");
    nb::class_<publisher>(
        m, "Publisher", nb::is_weak_referenceable(),
        "Publishes frames under a name, in slots of shared memory, to any number of Subscribers of this user. Ends when it is deleted.")
        .def(nb::init<std::string const&, nb::handle, nb::handle>(), "name"_a, "slots"_a, nb::kw_only(),
             "directory"_a.none() = nb::none(),
             "`slots`: 2 to 252 shares, which the Publisher takes. OSError if the name has a publisher.")
        .def(
            "begin",
            [](nb::object self, nb::object timeout) {
                static_cast<void>(require<publisher>(self));
                return std::make_unique<slot>(std::move(self), std::move(timeout));
            },
            "timeout"_a.none() = nb::none(),
            "A context manager for one frame: its block writes a slot that no process reads, and publishes it when it ends without an error. "
            "TimeoutError after `timeout` seconds.")
        .def_prop_ro("generation", &publisher::generation,
                     "The number of the newest frame; 0: nothing has been published.");
    nb::class_<slot>(m, "Slot", "A slot of a Publisher, while its block runs.")
        .def(
            "__enter__", [](nb::handle self) { return require<slot>(self)->enter(), nb::borrow(self); },
            nb::lock_self())
        .def(
            "__exit__", [](slot& self, nb::handle type, nb::handle, nb::handle) { self.exit(type); }, nb::arg().none(),
            nb::arg().none(), nb::arg().none(), nb::lock_self())
        .def_prop_ro("tensor", &slot::memory, nb::lock_self(), "The memory of the slot: a Tensor or a Column.");
    nb::class_<frame>(m, "Frame", nb::is_weak_referenceable(), "A frame of a topic.")
        .def_prop_ro(
            "value", [](frame const& f) { return f.value; },
            "The Tensor or Column. While it exists, the slot is not written.")
        .def_prop_ro(
            "generation", [](frame const& f) { return f.generation; },
            "The number of the frame. Missing numbers are frames that were missed.");
    nb::class_<subscriber>(
        m, "Subscriber", nb::is_weak_referenceable(),
        "Follows the frames of a name: before it has a Publisher, and from one to the next. An iterator of Frames without an end.")
        .def(nb::init<std::string const&, nb::handle>(), "name"_a, nb::kw_only(), "directory"_a.none() = nb::none())
        .def(
            "next", &subscriber::next, "timeout"_a.none() = nb::none(),
            "The newest Frame that this Subscriber has not returned yet; waits for one. TimeoutError after `timeout` seconds.")
        .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
        .def("__next__", [](subscriber& self) { return self.next(nb::none()); });
    nb::class_<registry>(
        m, "Registry", nb::is_weak_referenceable(),
        "Publishes arrays and tables under names. The newest of a name wins; the entries end with the Registry.")
        .def(nb::init<std::string const&, std::optional<std::uint64_t>, nb::handle>(), "name"_a, nb::kw_only(),
             "most_bytes"_a = nb::none(), "directory"_a.none() = nb::none(), "OSError if the name has an owner.")
        .def(
            "put", &registry::put, "name"_a, "x"_a,
            "Publish a share, an array or a table, in place of the former entry of this name. Entries that no process reads are dropped for it "
            "if all would have more than `most_bytes`; OSError if that is not enough.")
        .def("drop", &registry::drop, "name"_a, "Remove an entry; readers keep what they have. False: no such entry.")
        .def(
            "__iter__", [](registry& self) { return checked(PyObject_GetIter(self.names().ptr())); },
            "The names of the entries.")
        .def("__len__", &registry::size, "The number of entries.");
    m.def("find", &find_entry, "registry"_a, "name"_a, nb::kw_only(), "directory"_a.none() = nb::none(),
          "The Tensor or Column that a Registry of any process of this user has under a name; None: no such entry.");
    m.def("send", &send, "socket"_a, "share"_a,
          "Send a share, its descriptor and its files, over a connected Unix socket, whose timeout holds.");
    m.def("receive", &receive, "socket"_a, "Receive and attach what `send` has sent over a connected Unix socket.");
    nb::module_::import_("atexit").attr("register")(nb::cpp_function([] { session().close_all(); }));
}

}  // namespace package
