package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/emulator_test/internal/simulation"
)

// flags of the command.
type flags struct {
	seed, episode uint64
	one           bool // only that episode
	duration      time.Duration
	transactions  int
	failures      int // end a run
	size          int
	faults        string
	jobs          int
	notes         bool
	trace         string
	without       []string
	clients       int
	sessions      int
	workers       int
	shrinkFor     time.Duration
	scheduler     string
	overlay       string
	stuckAfter    time.Duration
	program       string // what runs the episodes; "": one that is built for it
	buildOnly     string

	job        bool // this process runs an episode
	cpuProfile string
}

func newCommand() *cobra.Command {
	f := new(flags)
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate clients, workers, collectors and oracles on a store, with faults, and judge what they saw",
		Long: `Simulate clients, workers, collectors and oracles on a store, with faults, and
judge what they saw.

Everything runs in this program, in virtual time: the engine as it ships, a
simulated store, and no network. A seed decides what happens. An episode makes
some thousand transactions in a world of its own; then everything comes to rest
and is judged: the history, the raw tables and the journal, and whether all of
it ended in time. A run makes one episode after the other, and prints those
that fail with the command that repeats them.

Exit status: 0 nothing is wrong, 1 an episode failed, 2 wrong usage.`,
		Example: `  # Ten minutes of episodes, each with faults of another intensity
  go run ./emulator_test/simulate --for 10m

  # One of them again
  go run ./emulator_test/simulate --seed 1 --episode 17`,
		Args:         noArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.job {
				return f.work()
			}
			if f.buildOnly != "" {
				return f.writeProgram(cmd.Context())
			}
			f.one = cmd.Flags().Changed("episode")
			return f.divide(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	set := cmd.Flags()
	set.Uint64Var(&f.seed, "seed", 1, "decides what happens")
	set.Uint64Var(&f.episode, "episode", 0, "run only this episode")
	set.DurationVar(&f.duration, "for", time.Minute, "how long to begin new episodes")
	set.IntVar(&f.transactions, "transactions", 0, "stop after as many judged transactions; 0: only the time counts")
	set.IntVar(&f.failures, "failures", 20, "stop after as many episodes that failed")
	set.IntVar(&f.size, "size", 5000, "transactions of an episode")
	set.StringVar(&f.faults, "faults", string(simulation.Seeded), "none, some, absurd, or seeded: another intensity in each episode")
	set.IntVar(&f.jobs, "jobs", 2, "processes, of one core each")
	set.BoolVar(&f.notes, "notes", false, "print what happened in an episode that failed")
	set.StringArrayVar(&f.without, "without", nil, "a kind of faults, as it is printed, that does not happen")
	set.IntVar(&f.clients, "clients", 0, "processes that make transactions; 0: the seed decides")
	set.IntVar(&f.sessions, "sessions", 0, "transactions that each of them makes at a time; 0: the seed decides")
	set.IntVar(&f.workers, "workers", 0, "processes that run observers; 0: the seed decides")
	set.DurationVar(&f.shrinkFor, "shrink", time.Minute, "how long to look for the smallest episode that fails like the first that did")
	// Virtual time stands still while any goroutine waits for a mutex.
	set.DurationVar(&f.stuckAfter, "stuck-after", 15*time.Minute, "how long an episode may take, in real time; more on a busy machine")
	set.StringVar(&f.trace, "trace", "", "a regular expression: add what the store does that matches to the notes")
	set.StringVar(&f.scheduler, "scheduler", seeded, "seeded: builds this program anew, from its sources, so that a seed decides what runs next; go: as it is")
	set.StringVar(&f.overlay, "overlay", "", "build with these files in the place of others, as go build -overlay does")
	set.StringVar(&f.buildOnly, "build", "", "write that program to this file, and simulate nothing")
	set.StringVar(&f.program, "program", "", "a program that --build has written; it is not built anew")
	set.BoolVar(&f.job, "job", false, "")
	set.StringVar(&f.cpuProfile, "cpuprofile", "", "")
	for _, hidden := range []string{"job", "cpuprofile"} {
		_ = set.MarkHidden(hidden)
	}
	return cmd
}
