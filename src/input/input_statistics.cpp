#include <algorithm>
#include <iomanip>
#include <ostream>

#include <lockstep/input/input_statistics.hpp>

namespace lockstep {

std::ostream& operator<<(std::ostream& out, const InputStatistics& statistics) {
  const auto milliseconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  const auto flags = out.flags();
  const auto precision = out.precision();
  std::size_t width = 5;
  for (const StageStatistics& stage : statistics.stages) width = std::max(width, stage.stage.size());
  const auto column = static_cast<int>(width);
  out << std::left << std::setw(column) << "stage" << std::right << std::setw(12) << "elements"
      << std::setw(12) << "total ms" << std::setw(12) << "waiting ms" << std::setw(12) << "work ms"
      << std::setw(9) << "threads" << std::setw(14) << "ready" << '\n'
      << std::fixed;
  for (const StageStatistics& stage : statistics.stages) {
    out << std::left << std::setw(column) << stage.stage << std::right << std::setw(12) << stage.num_elements
        << std::setprecision(2) << std::setw(12) << milliseconds(stage.total) << std::setw(12)
        << milliseconds(stage.waiting) << std::setw(12) << milliseconds(stage.work) << std::setw(9)
        << stage.num_threads;
    if (stage.buffer_size > 0)
      out << std::setprecision(1) << std::setw(7) << stage.mean_ready << " of " << std::setw(3)
          << stage.buffer_size;
    out << '\n';
  }
  if (!statistics.slowest.empty()) out << statistics.slowest << '\n';
  out.flags(flags);
  out.precision(precision);
  return out;
}

}  // namespace lockstep
