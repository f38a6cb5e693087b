package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// A store or an oracle that does not answer for a while ends no --watch that has started; any other
// error does.
func TestWatchGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		other := errors.New("other")
		var said strings.Builder
		cmd := &cobra.Command{}
		cmd.SetErr(&said)
		answers := []error{nil, tso.ErrUnavailable, nil, other}
		lists := 0
		list := func(context.Context, *cobra.Command, *percolator.Client, []string) error {
			lists++
			return answers[lists-1]
		}
		if err := (&WatchFlag{time.Second}).again(list)(t.Context(), cmd, nil, nil); !errors.Is(err, other) || lists != len(answers) {
			t.Errorf("it ended after %d lists: %v", lists, err)
		}
		if said.String() != "percolator: the oracle is unavailable\n" {
			t.Errorf("it said %q", said.String())
		}
		lists, answers = 0, []error{tso.ErrUnavailable}
		if err := (&WatchFlag{time.Second}).again(list)(t.Context(), cmd, nil, nil); !errors.Is(err, tso.ErrUnavailable) {
			t.Errorf("that it never began: %v", err)
		}
	})
}
