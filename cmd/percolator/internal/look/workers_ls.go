package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// workerJSON is a worker in the output for programs. What it has not told is absent.
type workerJSON struct {
	Name    string    `json:"name"`
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Version string    `json:"version,omitempty"`
	Session string    `json:"session,omitempty"`
	Started time.Time `json:"started"`
	Expires time.Time `json:"expires"` // unless it tells of itself again
	// Identifies its columns: workers with equal ones divide the tables.
	Columns   string   `json:"columns,omitempty"`
	Observers []string `json:"observers"` // names as shown

	Reported *time.Time `json:"reported,omitempty"` // when the rest was so
	Queued   int        `json:"queued"`
	Running  int        `json:"running"`
	Overdue  int64      `json:"overdue"` // runs that their timeout has not ended
	// Oldest notification in its scanners' last round.
	BacklogMillis int64 `json:"backlogMillis"`
}

func NewWorkersLs() *cobra.Command {
	var f cli.ListFlags
	cmd := &cobra.Command{
		Use: "ls",
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, _ []string) error {
			seen, err := admin.New(c).Workers(ctx)
			if err != nil {
				return err
			}
			reports, err := admin.New(c).Reports(ctx)
			if err != nil {
				return err
			}
			list := workerList(seen, reports)
			return f.Output.Emit(cmd.OutOrStdout(), list, func(w io.Writer) { printWorkers(w, list, seen.Now) })
		}),
	}
	f.Add(cmd, cli.CellTimeout)
	return cmd
}

// workerList joins what workers tell each other with what they report, by their names.
func workerList(seen model.Workers, reports []model.Report) []workerJSON {
	byName := map[string]workerJSON{}
	for _, r := range reports {
		if !r.HasWorker() {
			continue
		}
		byName[r.Name] = workerJSON{Name: cli.Shown(r.Name), Host: r.Host, PID: r.PID, Version: r.Version, Session: r.Session, Started: r.Started.Time().UTC(), Expires: r.Expires.Time().UTC(),
			Observers: ordered.Map(slices.Sorted(maps.Keys(r.Worker.Observers)), cli.Shown), Reported: new(r.Written.Time().UTC()), Queued: r.Worker.Queued, Running: r.Worker.Running, Overdue: r.Worker.Overdue, BacklogMillis: r.Worker.BacklogMillis}
	}
	for _, w := range seen.Live {
		o, reported := byName[w.Name]
		if !reported {
			o = workerJSON{Name: cli.Shown(w.Name), Version: w.Version, Started: w.Started.Time().UTC(), Expires: w.Expires.Time().UTC()}
		}
		o.Session, o.Columns = w.Session, w.Columns
		if len(w.Observers) > len(o.Observers) { // there are limits to what either tells
			o.Observers = ordered.Map(w.Observers, cli.Shown)
		}
		byName[w.Name] = o
	}
	list := slices.AppendSeq([]workerJSON{}, maps.Values(byName))
	slices.SortFunc(list, func(a, b workerJSON) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Name, b.Name)) })
	return list
}

func printWorkers(w io.Writer, list []workerJSON, now tso.Timestamp) {
	if len(list) == 0 {
		_, _ = fmt.Fprintln(w, "no workers")
		return
	}
	t := cli.NewTable(w, "NAME", "HOST", "PID", "VERSION", "SESSION", "STARTED", "EXPIRES", "COLUMNS", "QUEUED", "OVERDUE", "BACKLOG", "REPORTED", "OBSERVERS")
	for _, o := range list {
		pid, queued, overdue, backlog, reported := "-", "-", "-", "-", "-"
		if o.Reported != nil {
			pid, queued, overdue, reported = fmt.Sprint(o.PID), fmt.Sprint(o.Queued), fmt.Sprint(o.Overdue), cli.Age(now.Time(), *o.Reported)
			backlog = (time.Duration(o.BacklogMillis) * time.Millisecond).String()
		}
		t.Row(o.Name, cli.OrDash(o.Host), pid, cli.OrDash(o.Version), cli.OrDash(o.Session), cli.Age(now.Time(), o.Started), o.Expires.Format(time.RFC3339),
			cli.OrDash(o.Columns), queued, overdue, backlog, reported, cli.OrDash(strings.Join(text.Spans(o.Observers), ", ")))
	}
	t.Flush()
}
