package oracle

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/tsopb"
)

func NewStatus() *cobra.Command {
	var f cli.OracleFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:  "status",
		RunE: func(cmd *cobra.Command, _ []string) error { return showStatus(cmd, f, output) },
	}
	f.Add(cmd, 3*time.Second)
	output.Add(cmd)
	return cmd
}

// MaxServers bounds the list in --tso, as tso.Dial does.
const MaxServers = 64

// serverStatus is the answer of one server, in the form of the JSON output.
type serverStatus struct {
	state         string // in a word or two
	Target        string `json:"target"`
	Reachable     bool   `json:"reachable"`
	Error         string `json:"error,omitempty"`
	Leading       bool   `json:"leading"`
	Ready         bool   `json:"ready"`
	Reason        string `json:"reason,omitempty"`
	Leader        string `json:"leader,omitempty"`
	Epoch         int64  `json:"epoch,omitempty"`
	Record        int64  `json:"record,omitempty"`
	HighWater     int64  `json:"highWater,omitempty"`
	HighWaterTime string `json:"highWaterTime,omitempty"`
	Served        int64  `json:"served"`
	StoreAnswered *int64 `json:"storeAnsweredMillis,omitempty"`
	Server        string `json:"server,omitempty"`
	Version       string `json:"version,omitempty"`
}

func showStatus(cmd *cobra.Command, f cli.OracleFlags, output cli.Output) error {
	opts, err := f.DialOptions(cmd)
	if err != nil {
		return err
	}
	targets := cli.SplitTargets(f.Targets)
	if len(targets) == 0 || len(targets) > MaxServers {
		return cli.Usagef("--tso names %d servers, not 1 to %d", len(targets), MaxServers)
	}
	answers := askAll(cmd.Context(), targets, opts)
	if err := output.Emit(cmd.OutOrStdout(), answers, func(w io.Writer) { writeTable(w, answers) }); err != nil {
		return err
	}
	if slices.ContainsFunc(answers, func(st serverStatus) bool { return st.Leading }) {
		return nil
	}
	return fmt.Errorf("%w: none of the servers leads", tso.ErrUnavailable)
}

// askAll asks the servers at once.
func askAll(ctx context.Context, targets []string, opts []tso.DialOption) []serverStatus {
	answers := make([]serverStatus, len(targets))
	var all sync.WaitGroup
	for i, target := range targets {
		all.Go(func() {
			resp, err := tso.AskStatus(ctx, target, opts...)
			answers[i] = newServerStatus(target, resp, err)
		})
	}
	all.Wait()
	return answers
}

func newServerStatus(target string, resp *tsopb.GetStatusResponse, err error) serverStatus {
	if err != nil {
		return serverStatus{state: health.OracleServer{Failed: err}.State(), Target: target, Error: cli.ShortError(err)}
	}

	st := serverStatus{
		state:  health.OracleServer{Leading: resp.GetLeading(), Ready: resp.GetReady()}.State(),
		Target: target, Reachable: true, Leading: resp.GetLeading(), Ready: resp.GetReady(), Reason: resp.GetReason(),
		Leader: resp.GetLeader(), Epoch: resp.GetEpoch(), Record: resp.GetRecord(), HighWater: resp.GetHighWater(),
		Served: resp.GetServed(), StoreAnswered: new(resp.GetStoreAnsweredMs()), Server: resp.GetServer(), Version: resp.GetVersion(),
	}
	if st.HighWater > 0 {
		st.HighWaterTime = tso.Timestamp(st.HighWater).Time().Format(time.RFC3339Nano)
	}
	return st
}

func writeTable(w io.Writer, answers []serverStatus) {
	t := cli.NewTable(w, "SERVER", "STATE", "LEADER", "EPOCH", "RECORD", "HIGH-WATER MARK", "VERSION", "REMARK")
	for _, st := range answers {
		cells := []any{st.Target, st.state, dash(st.Leader), number(st.Epoch), number(st.Record), dash(st.HighWaterTime), dash(st.Version)}
		if remark := cmp.Or(st.Error, st.Reason); remark != "" {
			cells = append(cells, remark)
		}
		t.Row(cells...)
	}
	t.Flush()
}

func dash(text string) string { return cmp.Or(text, "-") }

func number(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
