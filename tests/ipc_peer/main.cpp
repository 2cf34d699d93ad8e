// The other process of tests/ipc: an unrelated program that performs the action of its argument, and reads and writes
// lines of text.
//   export KIND    shares a tensor, writes its descriptor (hex), closes after it reads a line
//   import         reads a descriptor, attaches, writes the values, drops the tensor after it reads a line
//   share          shares and closes once, between two raised signals
//   column SEED    shares a column, writes its descriptor (hex), closes after it reads a line
//   rows           reads a descriptor of a column, attaches it, writes its rows
//   attach         reads a descriptor, then attaches, reads and drops twice, between two raised signals
#include <ferry/ipc.hpp>
#include <ferry/wire/binary.hpp>

#include <support/ipc.hpp>
#include <support/ipc_peer.hpp>
#include <support/random_columns.hpp>

#include <csignal>
#include <iostream>
#include <string>

namespace {

void wait_for_line() {
    std::string line;
    std::getline(std::cin, line);
}

ferry::wire::descriptor hear() {
    std::string line;
    std::getline(std::cin, line);
    return support::from_hex(line);
}

ferry::managed_tensor of_kind(std::string const& kind) {
    using support::restrided;
    using support::tensor;
    if (kind == "whole") return tensor({2, 3});
    if (kind == "sliced") return restrided(tensor({10}), 2, {3}, {1});
    if (kind == "strided") return restrided(tensor({10}), 1, {3}, {4});
    if (kind == "reversed") return restrided(tensor({4}), 3, {4}, {-1});
    if (kind == "broadcast") return restrided(tensor({2}), 0, {3, 2}, {0, 1});
    if (kind == "read-only") return tensor({3}, ferry::flags::read_only);
    if (kind == "empty") return tensor({0, 3});
    return tensor({});
}

}  // namespace

int main(int, char** arguments) try {
    std::string const what = arguments[1];
    ferry::ipc::session session;
    if (what == "export") {
        auto shared = ferry::ipc::share(of_kind(arguments[2]), {.session = &session});
        std::cout << support::to_hex(shared.descriptor()) << std::endl;
        wait_for_line();
        shared.close();
    } else if (what == "import") {
        auto const tensor = ferry::ipc::attach(hear(), {.session = &session});
        for (auto const v : support::values(tensor)) std::cout << v << ' ';
        std::cout << (tensor.is_read_only() ? "read-only" : "writable") << std::endl;
        wait_for_line();
    } else if (what == "column") {
        support::column_maker maker{static_cast<unsigned>(std::stoi(arguments[2]))};
        auto shared = ferry::ipc::share(maker.make("+s", 40, 3), {.session = &session});
        std::cout << support::to_hex(shared.descriptor()) << std::endl;
        wait_for_line();
        shared.close();
    } else if (what == "rows") {
        auto const c = ferry::ipc::attach_column(hear(), {.session = &session});
        for (auto const& row : support::shown(c.view())) std::cout << row << ' ';
        std::cout << std::endl;
    } else if (what == "share") {
        auto tensor = support::tensor({1000});
        std::raise(SIGUSR1);
        {
            auto shared = ferry::ipc::share(std::move(tensor), {.session = &session});
            auto again = ferry::ipc::share(shared.tensor(), {.session = &session});
            shared.close();
        }
        std::raise(SIGUSR2);
    } else if (what == "attach") {
        auto const descriptor = hear();
        bool good = true;
        std::raise(SIGUSR1);
        for (int i = 0; i < 2; ++i) {
            auto const tensor = ferry::ipc::attach(descriptor, {.session = &session});
            good = good && tensor.as<float>()(999) == 999;
        }
        session.trim();
        std::raise(SIGUSR2);
        return good ? 0 : 1;
    }
    return 0;
} catch (std::exception const& e) {
    std::cout << "error " << e.what() << std::endl;
    return 3;
}
