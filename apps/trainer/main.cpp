// reprieve-trainer: data-parallel training of a neural network that survives preemption.

#include "common/program.hpp"
#include "trainer/job.hpp"

int main(int argc, char** argv) { return apps::run_program("reprieve-trainer", argc, argv, trainer::run_job); }
