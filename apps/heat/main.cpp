// reprieve-heat: the heat equation in three dimensions, on any number of ranks, that survives preemption.

#include "common/program.hpp"
#include "heat/job.hpp"

int main(int argc, char** argv) { return apps::run_program("reprieve-heat", argc, argv, heat::run_job); }
