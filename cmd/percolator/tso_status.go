package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/tsopb"
)

func newTSOStatus() *cobra.Command {
	var f clientFlags
	var output outputFlag
	cmd := &cobra.Command{
		Use:  "status",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return showStatus(cmd, f, output) },
	}
	f.add(cmd, 3*time.Second)
	output.add(cmd)
	return cmd
}

// maxServers bounds the list in --tso, as tso.Dial does.
const maxServers = 64

// serverStatus is the answer of one server, in the form of the JSON output.
type serverStatus struct {
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

func showStatus(cmd *cobra.Command, f clientFlags, output outputFlag) error {
	opts, err := f.dialOptions(cmd)
	if err != nil {
		return err
	}
	targets := splitTargets(f.targets)
	if len(targets) == 0 || len(targets) > maxServers {
		return usagef("--tso names %d servers, not 1 to %d", len(targets), maxServers)
	}
	answers := askAll(cmd.Context(), targets, opts)
	if err := output.emit(cmd.OutOrStdout(), answers, func(w io.Writer) { writeTable(w, answers) }); err != nil {
		return err
	}
	if slices.ContainsFunc(answers, func(st serverStatus) bool { return st.Leading }) {
		return nil
	}
	return fmt.Errorf("%w: none of the servers leads", tso.ErrUnavailable)
}

func splitTargets(list string) (targets []string) {
	for target := range strings.SplitSeq(list, ",") {
		if target = strings.TrimSpace(target); target != "" {
			targets = append(targets, target)
		}
	}
	return targets
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
		return serverStatus{Target: target, Error: shortError(err)}
	}

	st := serverStatus{
		Target: target, Reachable: true, Leading: resp.GetLeading(), Ready: resp.GetReady(), Reason: resp.GetReason(),
		Leader: resp.GetLeader(), Epoch: resp.GetEpoch(), Record: resp.GetRecord(), HighWater: resp.GetHighWater(),
		Served: resp.GetServed(), StoreAnswered: new(resp.GetStoreAnsweredMs()), Server: resp.GetServer(), Version: resp.GetVersion(),
	}
	if st.HighWater > 0 {
		st.HighWaterTime = tso.Timestamp(st.HighWater).Time().Format(time.RFC3339Nano)
	}
	return st
}

// shortError leaves out of an error of gRPC what says only that it is one.
func shortError(err error) string {
	if st, ok := status.FromError(err); ok {
		text := st.Message()
		for _, prefix := range []string{"desc = ", "Error while dialing: ", "transport: "} {
			if i := strings.LastIndex(text, prefix); i >= 0 {
				text = text[i+len(prefix):]
			}
		}
		return strings.Trim(text, `"`)
	}
	return err.Error()
}

// state is what a server does, in a word or two.
func (st serverStatus) state() string {
	switch {
	case !st.Reachable:
		return "unreachable"
	case st.Leading:
		return "leads"
	case st.Ready:
		return "stands by"
	}
	return "not ready"
}

func writeTable(w io.Writer, answers []serverStatus) {
	t := newTable(w, "SERVER", "STATE", "LEADER", "EPOCH", "RECORD", "HIGH-WATER MARK", "VERSION", "REMARK")
	for _, st := range answers {
		cells := []any{st.Target, st.state(), dash(st.Leader), number(st.Epoch), number(st.Record), dash(st.HighWaterTime), dash(st.Version)}
		if remark := cmp.Or(st.Error, st.Reason); remark != "" {
			cells = append(cells, remark)
		}
		t.row(cells...)
	}
	t.flush()
}

func dash(text string) string { return cmp.Or(text, "-") }

func number(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
