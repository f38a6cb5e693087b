package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	plot "github.com/gopercolator/percolator/cmd/percolator-bench/internal/oldplot"
)

func printFig10(w io.Writer, r *bench.Fig10Report) error {
	how := "reads batched"
	if !r.Batching {
		how = "reads not batched"
	}
	if !r.RowLocks {
		how += ", workers without row locks"
	}
	_, _ = fmt.Fprintf(w, "recovery from failures, on %s, %s: %s, %d CPUs\n", r.Emulator, how, r.GoVersion, r.CPUs)
	if r.Saturated > 0 {
		_, _ = fmt.Fprintf(w, "32 writers reach %.0f transfers/s; ", r.Saturated)
	}
	_, _ = fmt.Fprintf(w, "%.0f offered a second, %d not begun as too many were under way\n\n", r.Offered, r.Shed)

	rates := []string{"\tfrom s\tto s\ttransfers/s before\tduring\tlowest\tback to 90 % after s\tlongest without any s" +
		"\truns/s before\tduring\tlowest\tback after s"}
	work := []string{"\tbacklog before\tmost\tback after s\tlongest wait s" +
		"\trolled forward\trolled back\tconflicts\toutcome unknown\tother errors of callers"}
	for _, e := range r.Events {
		rates = append(rates, fmt.Sprintf("%s\t%.2f\t%.2f\t%.0f\t%s\t%.0f\t%s\t%.2f\t%.0f\t%s\t%.0f\t%s", e.Name, e.Begins, e.Ends,
			e.Commits.Before, during(e, e.Commits), e.Commits.Lowest, recovery(e.Commits.Recovery), e.Gap,
			e.Runs.Before, during(e, e.Runs), e.Runs.Lowest, recovery(e.Runs.Recovery)))
		work = append(work, fmt.Sprintf("%s\t%d\t%d\t%s\t%.2f\t%d\t%d\t%d\t%d\t%s", e.Name,
			e.Backlog.Before, e.Backlog.Most, recovery(e.Backlog.Recovery), e.Wait, e.RolledForward, e.RolledBack, e.Conflicts, e.Unknown, errorsOf(e.Errors)))
	}
	printBlock(w, rates...)
	printBlock(w, work...)
	for _, e := range r.Events {
		switch e.Name {
		case bench.Fig10Outage:
			_, _ = fmt.Fprintf(w, "outage: %d requests and entries refused; %d writes applied with the answer lost\n", e.Refused, e.AnswersLost)
		case bench.Fig10WorkerDies:
			_, _ = fmt.Fprintf(w, "worker: killed with %d commits under way\n", e.Held)
		}
	}
	return printFig10Audit(w, r)
}

func printFig10Audit(w io.Writer, r *bench.Fig10Report) error {
	a := r.Audit
	_, _ = fmt.Fprintf(w, "\nnothing was left to do %.2f s after the last transfer; then, in one snapshot:\n", r.Settled)
	_, _ = fmt.Fprintf(w, "  %d transfers acknowledged, %d of them missing\n", a.Acknowledged, a.Missing)
	_, _ = fmt.Fprintf(w, "  %d with unknown outcome, %d of them committed; %d failed, %d of them committed\n",
		a.Unknown, a.UnknownCommitted, a.Failed, a.Unfailed)
	_, _ = fmt.Fprintf(w, "  %d entries, %d altered, %d without a run, %d with more than one\n", a.Entries, a.Altered, a.NotRun, a.RunTwice)
	_, err := fmt.Fprintf(w, "  balances: %d before and %d after; %d accounts that their entries do not explain, %d with a wrong count\n",
		a.Opening, a.Closing, a.WrongAccounts, a.WrongCounts)
	return err
}

// during is nothing for what dies at once.
func during(e bench.Fig10Event, d bench.Fig10Dip) string {
	if e.Name != bench.Fig10Outage {
		return ""
	}
	return fmt.Sprintf("%.0f", d.During)
}

func recovery(s *float64) string {
	if s == nil {
		return "not watched so long"
	}
	return fmt.Sprintf("%.2f", *s)
}

func errorsOf(counts map[string]int64) string {
	if len(counts) == 0 {
		return "none"
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(out, ", ")
}

// plotFig10 draws the rates and the backlog over time, with the events marked.
func plotFig10(dir string, r *bench.Fig10Report) error {
	transfers, runs := plot.Line{Name: "transfers", Steps: true}, plot.Line{Name: "observer runs", Steps: true}
	backlog := plot.Line{Steps: true}
	for _, b := range r.Buckets {
		transfers.X, transfers.Y = append(transfers.X, b.At), append(transfers.Y, b.Commits)
		runs.X, runs.Y = append(runs.X, b.At), append(runs.Y, b.Runs)
		backlog.X, backlog.Y = append(backlog.X, b.At), append(backlog.Y, float64(b.Backlog))
	}
	seconds := plot.Axis{Label: "time, s"}
	rates, err := plot.Lines(plot.Chart{Title: fmt.Sprintf("Failures and recovery: %.0f transfers/s offered", r.Offered), X: seconds,
		Y: plot.Axis{Label: "committed, 1/s"}, Marks: marksOf(r.Events)}, runs, transfers)
	if err != nil {
		return err
	}
	waiting, err := plot.Lines(plot.Chart{Title: "Failures and recovery: the observers' backlog", X: seconds,
		Y: plot.Axis{Label: "transfers without their run"}, Marks: marksOf(r.Events)}, backlog)
	if err != nil {
		return err
	}
	if err := rates.Save(dir, "fig10-rates"); err != nil {
		return err
	}
	return waiting.Save(dir, "fig10-backlog")
}

func marksOf(events []bench.Fig10Event) (marks []plot.Mark) {
	for _, e := range events {
		switch e.Name {
		case bench.Fig10Outage:
			marks = append(marks, plot.Mark{At: e.Begins, Name: "a third of the keys fails"}, plot.Mark{At: e.Ends, Name: "it is back"})
		case bench.Fig10OracleDies:
			marks = append(marks, plot.Mark{At: e.Begins, Name: "the oracle's leader is killed"})
		case bench.Fig10WorkerDies:
			marks = append(marks, plot.Mark{At: e.Ends, Name: "a worker is killed"})
		}
	}
	return marks
}
