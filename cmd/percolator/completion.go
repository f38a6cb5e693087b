package main

import (
	"cmp"
	"context"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// newCompletion takes the place of cobra's own command, which is hidden and has no examples.
func newCompletion() *cobra.Command {
	cmd := &cobra.Command{
		Use:       "completion SHELL",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s takes the name of a shell: bash, zsh, fish or powershell", cmd.CommandPath())
			}
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return usagef("no completion for %q; there are bash, zsh, fish and powershell", args[0])
		},
	}
	return cmd
}

// completionTimeout bounds the wait after a press of tab.
const completionTimeout = 2 * time.Second

// mostCompleted is how many rows, or parked cells, are offered.
const mostCompleted = 50

// tablesToComplete are none if the instance is not known or does not answer: then nothing is
// completed.
func tablesToComplete(cmd *cobra.Command) []percolator.Table {
	if applyEnv(cmd) != nil {
		return nil
	}
	var n instanceName
	n.project, _ = cmd.Flags().GetString("project")
	n.instance, _ = cmd.Flags().GetString("instance")
	n.appProfile, _ = cmd.Flags().GetString("app-profile")
	if n.check() != nil {
		return nil
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTimeout)
	defer cancel()
	stored, err := n.readSchema(ctx)
	if err != nil || stored.Schema == nil {
		return nil
	}
	return stored.Schema.Tables
}

// completeTables completes the first argument.
func completeTables(cmd *cobra.Command, args []string, begun string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		for _, t := range tablesToComplete(cmd) {
			if strings.HasPrefix(t.Name, begun) {
				list = append(list, t.Name)
			}
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completeIndexes completes a table and one of its indexes.
func completeIndexes(cmd *cobra.Command, args []string, begun string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) != 1 {
		return completeTables(cmd, args, begun)
	}
	for _, t := range tablesToComplete(cmd) {
		for _, ix := range t.Indexes {
			if t.Name == args[0] && strings.HasPrefix(ix.Name, begun) {
				list = append(list, ix.Name)
			}
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completed is what the shell is offered of names: as they are shown, without those that do not go
// on as what was begun.
func completed(begun string, names iter.Seq2[string, error]) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	for name, err := range names {
		if err != nil {
			break
		}
		if text := shown(name); strings.HasPrefix(text, begun) && !slices.Contains(list, text) {
			if list = append(list, text); len(list) == mostCompleted {
				break
			}
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// fromInstance completes with what find finds in the instance that the command line names, if it
// and its oracle answer.
func fromInstance(
	cmd *cobra.Command, args []string, begun string, find func(ctx context.Context, c *percolator.Client, args []string) iter.Seq2[string, error],
) (list []cobra.Completion, directive cobra.ShellCompDirective) {
	named, err := names(args)
	if err != nil || applyEnv(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var f dataFlags
	own := new(cobra.Command)
	f.add(own, completionTimeout)
	own.SetContext(cmp.Or(cmd.Context(), context.Background()))
	own.SetErr(io.Discard)
	own.Flags().VisitAll(func(flag *pflag.Flag) {
		if given := cmd.Flags().Lookup(flag.Name); given != nil && flag.Name != "timeout" {
			_ = flag.Value.Set(given.Value.String())
			flag.Changed = given.Changed
		}
	})
	_ = f.with(own, func(ctx context.Context, c *percolator.Client) error {
		list, directive = completed(begun, find(ctx, c, named))
		return nil
	})
	return list, directive | cobra.ShellCompDirectiveNoFileComp
}

// completeCells completes a table, a row and columns of the row.
func completeCells(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return completeTables(cmd, args, begun)
	case len(args) > 2 && !strings.Contains(cmd.Use, "…"):
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	prefix, err := fromShown(begun)
	if err != nil { // the closing quote is still to come
		prefix = ""
	}
	return fromInstance(cmd, args, begun, func(ctx context.Context, c *percolator.Client, args []string) iter.Seq2[string, error] {
		rows, of := percolator.Prefix(prefix), func(cell percolator.Cell) string { return cell.Row }
		if len(args) > 1 {
			rows, of = percolator.Row(args[1]), func(cell percolator.Cell) string { return cell.Column }
		}
		return func(yield func(string, error) bool) {
			_ = c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
				for e, err := range s.Scan(ctx, args[0], rows) {
					if !yield(of(e.Cell), err) {
						break
					}
				}
				return nil
			})
		}
	})
}

// completeParked completes a cell for which an observer is parked, and the observer.
func completeParked(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return fromInstance(cmd, args, begun, func(ctx context.Context, c *percolator.Client, args []string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for p, err := range observers.ListParked(ctx, c) {
				parts := []string{p.Cell.Table, p.Cell.Row, p.Cell.Column, p.Observer}
				if err == nil && (len(args) >= len(parts) || !slices.Equal(parts[:len(args)], args)) {
					continue
				}
				if !yield(parts[min(len(args), len(parts)-1)], err) {
					return
				}
			}
		}
	})
}

// completeObservers completes a table, one of its observed columns, and an observer that some
// worker has.
func completeObservers(cmd *cobra.Command, args []string, begun string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return completeTables(cmd, args, begun)
	case 1:
		return completed(begun, func(yield func(string, error) bool) {
			for _, t := range tablesToComplete(cmd) {
				for _, column := range t.Observed {
					if t.Name == args[0] && !yield(column, nil) {
						return
					}
				}
			}
		})
	case 2:
		return observerNames(cmd, nil, begun)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeHolds completes the ID of a hold.
func completeHolds(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return fromInstance(cmd, args, begun, func(ctx context.Context, c *percolator.Client, args []string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			holds, err := admin.New(c).Holds(ctx)
			for _, h := range holds {
				if len(args) > 0 || !yield(h.ID, err) {
					return
				}
			}
		}
	})
}

// schemaNames are those of the schemas in the instance.
func schemaNames(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completed(begun, func(yield func(string, error) bool) {
		for _, t := range tablesToComplete(cmd) {
			if t.Schema != "" && !yield(t.Schema, nil) {
				return
			}
		}
	})
}

// observerNames are those that workers have.
func observerNames(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return fromInstance(cmd, nil, begun, func(ctx context.Context, c *percolator.Client, _ []string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			workers, err := runningWorkers(ctx, c)
			if err != nil {
				yield("", err)
				return
			}
			for _, w := range workers {
				for _, o := range w.Observers {
					if !yield(o, nil) {
						return
					}
				}
			}
		}
	})
}
