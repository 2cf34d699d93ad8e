// Writes the name and the JSON of every sample, a line each.
#include <ferry/wire/json.hpp>

#include <support/descriptors.hpp>

#include <cstdio>

int main() {
    for (auto const& [name, d] : support::descriptors())
        std::printf("%s\t%s\n", name.c_str(), ferry::wire::to_json(d).c_str());
}
