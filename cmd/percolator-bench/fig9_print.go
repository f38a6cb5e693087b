package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	plot "github.com/gopercolator/percolator/cmd/percolator-bench/internal/oldplot"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/tpce"
)

func fig9Table(r *bench.Fig9Report) func(io.Writer) error {
	return func(w io.Writer) error { return printFig9(w, r) }
}

func printFig9(w io.Writer, r *bench.Fig9Report) error {
	_, _ = fmt.Fprintf(w, "a brokerage on %s, %s, %d CPUs: %d terminals and %d hands of the exchange, in a closed loop\n",
		r.Emulator, r.GoVersion, r.CPUs, r.Terminals, r.Exchange)
	_, _ = fmt.Fprintf(w, "mix: %d %% trade-order, each with its trade-result, %d %% customer-position, %d %% trade-status; "+
		"%d of %.2g s each, seed %d\n",
		r.Mix.TradeOrder, r.Mix.CustomerPosition, r.Mix.TradeStatus, r.Repeat, r.Duration, r.Seed)
	shared := "the emulator is another process, whose cores are neither limited nor counted"
	if r.Together {
		shared = "the emulator is in the same process and has its share of the cores"
	}
	_, _ = fmt.Fprintf(w, "cores: GOMAXPROCS of the process with all clients and the oracle; %s\n\n", shared)

	rows := []string{"cores\tcustomers\tbrokers\tcommission\ttrades/s\tmin\tmax\tall transactions/s\t" +
		"cores used\tconflicts/commit\tstorage requests/transaction"}
	for _, s := range r.Rows {
		rows = append(rows, fmt.Sprintf("%d\t%d\t%d\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.3f\t%.2f",
			s.Cores, s.Customers, s.Size.Brokers(), s.Commission,
			s.TPS.Median, s.TPS.Min, s.TPS.Max, s.All.Median, s.CoresUsed.Median, s.ConflictsPerCommit, s.Storage))
	}
	printBlock(w, rows...)
	for _, s := range r.Rows {
		printFig9Row(w, s)
	}
	trades := int64(0)
	for _, s := range r.Rows {
		for _, a := range s.Audits {
			trades += a.Trades
		}
	}
	_, _ = fmt.Fprintf(w, "%d trades were ordered, and every one of them audited: money, holdings, commissions and prices are right\n", trades)
	for _, p := range r.Paper {
		_, _ = fmt.Fprintf(w, "%s: %.0f trades/s on %.0f cores; other machines, another store\n", p.Source, p.TPS, p.Cores)
	}
	return nil
}

// printFig9Row tells one setting by type of transaction.
func printFig9Row(w io.Writer, s bench.Fig9Row) {
	_, _ = fmt.Fprintf(w, "%d cores, %d customers, commission %s\n", s.Cores, s.Customers, s.Commission)
	rows := []string{"\tn\tconflicts/commit\tp50 ms\tp99 ms\tmax ms"}
	for _, t := range s.Transactions {
		rows = append(rows, fmt.Sprintf("%s\t%d\t%.3f\t%.2f\t%.2f\t%.2f",
			t.Type, t.Count, t.ConflictsPerCommit, t.P50, t.P99, t.Max))
	}
	printBlock(w, rows...)
	if s.Queue {
		_, _ = fmt.Fprintf(w, "%d folds of the combine queue, %d conflicts\n", s.Folds.Runs, s.Folds.Conflicts)
	}
	_, _ = fmt.Fprint(w, "requests/transaction:")
	for _, kind := range slices.Sorted(maps.Keys(s.Requests)) {
		_, _ = fmt.Fprintf(w, "  %s %.2f", kind, s.Requests[kind])
	}
	_, _ = fmt.Fprint(w, "\n\n")
}

// plotFig9 draws trades a second against cores and against customers.
func plotFig9(dir string, r *bench.Fig9Report) error {
	mostCores, mostCustomers := 0, 0
	for _, s := range r.Rows {
		mostCores, mostCustomers = max(mostCores, s.Cores), max(mostCustomers, s.Customers)
	}
	tps := plot.Axis{Label: "trades executed, 1/s"}
	lines := fig9Lines(r, func(s bench.Fig9Row) (float64, bool) {
		return float64(s.Cores), s.Customers == mostCustomers
	})
	cores, err := plot.Lines(plot.Chart{
		Title: fmt.Sprintf("A brokerage of %d customers on %s", mostCustomers, r.Emulator), X: plot.Axis{Label: "cores (GOMAXPROCS)"}, Y: tps,
	}, append(lines, linear(lines[0]))...)
	if err != nil {
		return err
	}
	customers, err := plot.Lines(plot.Chart{
		Title: fmt.Sprintf("A brokerage on %d cores and %s", mostCores, r.Emulator), X: plot.Axis{Label: "customers", Log: true}, Y: tps,
	}, fig9Lines(r, func(s bench.Fig9Row) (float64, bool) { return float64(s.Customers), s.Cores == mostCores })...)
	if err != nil {
		return err
	}
	if err := cores.Save(dir, "fig9-cores"); err != nil {
		return err
	}
	return customers.Save(dir, "fig9-customers")
}

// fig9Lines has a line of medians for each way of commissions, of the rows that x takes.
func fig9Lines(r *bench.Fig9Report, x func(bench.Fig9Row) (at float64, takes bool)) (lines []plot.Line) {
	rows := slices.Clone(r.Rows)
	slices.SortStableFunc(rows, func(a, b bench.Fig9Row) int {
		return cmp.Or(cmp.Compare(a.Cores, b.Cores), cmp.Compare(a.Customers, b.Customers))
	})
	for _, c := range []tpce.Commission{tpce.Queued, tpce.Direct, tpce.Omitted} {
		l := plot.Line{Name: "commission: " + string(c), Points: true}
		for _, s := range rows {
			if at, takes := x(s); takes && s.Commission == c {
				l.X, l.Y = append(l.X, at), append(l.Y, s.TPS.Median)
			}
		}
		if len(l.X) > 0 {
			lines = append(lines, l)
		}
	}
	return lines
}

// linear is how a line would go on if every core did what the first ones do.
func linear(l plot.Line) plot.Line {
	out := plot.Line{Name: "linear"}
	for _, x := range l.X {
		out.X, out.Y = append(out.X, x), append(out.Y, l.Y[0]*x/l.X[0])
	}
	return out
}
