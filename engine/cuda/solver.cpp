// Loading cuSOLVER, and a handle for each thread and device: a handle holds its stream.
#include "engine/cuda/solver.h"

#include <map>
#include <mutex>

#include "engine/base/check.h"
#include "engine/cuda/context.h"
#include "engine/cuda/libraries.h"
#include "engine/tensor/graph.h"

namespace tycho::cuda {
namespace {

std::mutex mutex;
const Solver<float>* floats_replaced = nullptr;
const Solver<double>* doubles_replaced = nullptr;

template <class F>
void load(F& function, const std::string& symbol) {
  std::string why;
  void* const found = library_function(LibraryId::Cusolver, symbol.c_str(), &why);
  if (!found)
    fail(Kind::Device, "linear algebra on cuda needs cuSOLVER: " + why,
         library(LibraryId::Cusolver).install);
  function = reinterpret_cast<F>(found);
}

template <class T>
const Solver<T>& loaded(const char* prefix) {
  static Solver<T> table;
  static bool done = false;
  const std::lock_guard lock(mutex);
  if (done) return table;
  load(table.create, "cusolverDnCreate");
  load(table.set_stream, "cusolverDnSetStream");
  load(table.create_jacobi, "cusolverDnCreateGesvdjInfo");
#define FUNCTION(name, symbol, args) load(table.name, std::string(prefix) + #symbol);
  TYCHO_SOLVER(FUNCTION, T)
#undef FUNCTION
  done = true;
  return table;
}

}  // namespace

void set_solver(const Solver<float>* floats, const Solver<double>* doubles) {
  floats_replaced = floats;
  doubles_replaced = doubles;
}

template <>
const Solver<float>& solver_of<float>() {
  return floats_replaced ? *floats_replaced : loaded<float>("cusolverDnS");
}
template <>
const Solver<double>& solver_of<double>() {
  return doubles_replaced ? *doubles_replaced : loaded<double>("cusolverDnD");
}

void check_solver(solver::Status status, const char* what) {
  TYCHO_CHECK(Kind::Device, status == 0, "cuSOLVER: %s failed with status %d", what, status);
}

template <class T>
solver::Handle handle_of_solver(Device device) {
  not_while_capturing(device, "linear algebra, whose steps the host leads,");
  thread_local std::map<int, solver::Handle> handles;
  const Solver<T>& s = solver_of<T>();
  const Stream stream = stream_of(device);
  solver::Handle& handle = handles[device.number];
  if (!handle) check_solver(s.create(&handle), "its start");
  check_solver(s.set_stream(handle, stream), "choosing a stream");
  return handle;
}
template <class T>
solver::Jacobi jacobi_of() {
  static const solver::Jacobi made = [] {
    solver::Jacobi j = nullptr;
    check_solver(solver_of<T>().create_jacobi(&j), "its settings");
    return j;
  }();
  return made;
}
template solver::Jacobi jacobi_of<float>();
template solver::Jacobi jacobi_of<double>();
template solver::Handle handle_of_solver<float>(Device);
template solver::Handle handle_of_solver<double>(Device);

}  // namespace tycho::cuda
