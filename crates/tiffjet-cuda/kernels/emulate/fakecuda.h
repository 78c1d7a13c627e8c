// Kernels that the fake driver can launch, by name.
#pragma once
#include "../device.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>

namespace fake {

// A launch with its arguments, taken when it is submitted and run when it is its turn.
using Run = std::function<void(dim3 grid, dim3 block, size_t shared, uint64_t seed)>;
using Bind = std::function<Run(void** arguments)>;

inline std::map<std::string, Bind>& kernels() {
    static std::map<std::string, Bind> all;
    return all;
}

template <class... A>
struct Call {
    void (*kernel)(A...);
    std::tuple<A...> arguments;
    static void enter(void** self) {
        Call* call = reinterpret_cast<Call*>(self);
        std::apply(call->kernel, call->arguments);
    }
};

template <class... A, size_t... I>
std::shared_ptr<Call<A...>> call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    return std::make_shared<Call<A...>>(Call<A...>{kernel, {*static_cast<A*>(arguments[I])...}});
}

template <class... A>
struct Kernel {
    Kernel(const char* name, void (*kernel)(A...)) {
        kernels()[name] = [kernel](void** arguments) -> Run {
            auto bound = call(kernel, arguments, std::index_sequence_for<A...>());
            return [bound](dim3 grid, dim3 block, size_t shared, uint64_t seed) {
                simt::launch(grid, block, shared, Call<A...>::enter, reinterpret_cast<void**>(bound.get()), seed);
            };
        };
    }
};

}  // namespace fake

#define FAKE_KERNEL(name) static fake::Kernel fake_##name(#name, name);
