package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/spf13/cobra"
)

// Benchmarks have processes of their own: so that what a server costs and what its clients cost are
// not the same scheduler's queue, and to kill them. Such a process is asked on its standard input
// and answers on its standard output, a line of JSON each; it ends with its input. Its first line
// says how it is set up.

// lines is what a part of a benchmark hears and says.
type lines struct {
	in  *json.Decoder
	out *json.Encoder
}

// hear returns io.EOF at the end of the input.
func (l *lines) hear(question any) error { return l.in.Decode(question) }
func (l *lines) say(answer any) error    { return l.out.Encode(answer) }

// untilEnd waits for the end of the input.
func (l *lines) untilEnd() error {
	_, err := io.Copy(io.Discard, l.in.Buffered())
	for err == nil {
		err = l.in.Decode(new(json.RawMessage))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// answer does f for each line that it hears, and says what f returns, until the input ends.
func answer[Q, A any](l *lines, f func(Q) A) error {
	for {
		var q Q
		if err := l.hear(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := l.say(f(q)); err != nil {
			return err
		}
	}
}

// part is the program of a process.
type part func(ctx context.Context, l *lines) error

// setUp makes a part of a function that is told how it is set up.
func setUp[S any](f func(ctx context.Context, setting S, l *lines) error) part {
	return func(ctx context.Context, l *lines) error {
		var setting S
		if err := l.hear(&setting); err != nil {
			return err
		}
		return f(ctx, setting, l)
	}
}

// newPart is the hidden command that processes are started with.
func newPart() *cobra.Command {
	return &cobra.Command{
		Use: "part NAME", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := parts()[args[0]]
			if p == nil {
				return usagef("no benchmark has a part %q", args[0])
			}
			return p(cmd.Context(), &lines{json.NewDecoder(bufio.NewReader(cmd.InOrStdin())), json.NewEncoder(cmd.OutOrStdout())})
		},
	}
}

// process is a part under way.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	lines
	reading sync.WaitGroup // whoever hears it from a goroutine: Wait closes the pipe
	end     func() error   // waits for its end, once
}

// startPart starts a part in a process and sets it up.
func startPart(ctx context.Context, name string, setting any, env ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, "part", name)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env...), os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.lines = lines{json.NewDecoder(bufio.NewReader(out)), json.NewEncoder(p.in)}
	p.end = sync.OnceValue(func() error { p.reading.Wait(); return p.cmd.Wait() })
	if err := p.say(setting); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// hear waits for an answer.
func (p *process) hear(answer any) error {
	if err := p.lines.hear(answer); err != nil {
		return fmt.Errorf("a process of the benchmark ended: %w", err)
	}
	return nil
}

// ask says a question and waits for its answer.
func (p *process) ask(question, answer any) error {
	return errors.Join(p.say(question), p.hear(answer))
}

// stop ends the process and waits for it. One that was killed has ended.
func (p *process) stop() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	return errors.Join(p.in.Close(), p.end())
}

// kill ends the process as a machine that loses its power ends it, and waits until everything that
// it has said is heard.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = p.end() // it says that it was killed
	return nil
}

// collectSeldom is the environment of a process whose live heap is some megabytes: collecting it
// seldom costs nothing. A service would be run like this too.
func collectSeldom() []string {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return []string{"GOGC=400"}
}

// parts are the programs of all processes, by name.
func parts() map[string]part {
	return map[string]part{
		"fig10-oracle":     setUp(fig10Oracle),
		"fig10-worker":     setUp(fig10Worker),
		"fig9-run":         setUp(fig9Run),
		"observers-store":  setUp(observersStore),
		"observers-worker": setUp(observersWorker),
		"observers-writer": setUp(observersWriter),
		"tso-load":         setUp(oracleLoad),
		"tso-server":       setUp(oracleServer),
	}
}
