package browser_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/browser"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// TestTheProgram goes through user journeys with the delivered program.
func TestTheProgram(t *testing.T) {
	if !all() {
		return // make test-ui
	}
	program := filepath.Join(t.TempDir(), "skald")
	build := exec.Command("go", "build", "-ldflags=-s", "-o", program, "../../../cmd/skald")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Run("from the demo alone", func(t *testing.T) { fromTheDemoAlone(t, program) })
	t.Run("the server is killed and comes back", func(t *testing.T) { killed(t, program) })
}

// starts runs the program until the test ends or stop is called.
func starts(
	t *testing.T, program, dsn, addr string, args ...string,
) (out io.Reader, p *os.Process, stop func(os.Signal)) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "SKALD_DATABASE_URL=" + dsn,
		"SKALD_LISTEN_ADDR=" + addr, "SKALD_ENV=dev"}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func(how os.Signal) {
		if ended {
			return
		}
		ended = true
		hurry := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer hurry.Stop()
		_ = cmd.Process.Signal(how)
		_, _ = io.Copy(io.Discard, out) // until the program ends
		_ = cmd.Wait()                  // a killed process returns an error
	}
	t.Cleanup(func() { stop(syscall.SIGTERM) })
	return out, cmd.Process, stop
}

// fromTheDemoAlone starts with nothing but the demo's output. A person finds the saga whose undo
// gave up, understands why, repairs it, and sees it end clean. The first attempt fails because the
// service it calls is still down.
func fromTheDemoAlone(t *testing.T, program string) {
	out, _, _ := starts(t, program, testdb.DSN(t), "127.0.0.1:0", "demo", "--keep", "--scale", "0.02")
	var pages, participants string
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Ctrl-C") {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == "Skald" {
			pages = words[1]
		} else if len(words) > 1 && words[0] == "services" {
			participants = words[1]
		}
	}
	if pages == "" || participants == "" {
		t.Fatalf("the demo prints neither its pages nor its participants: %q %q", pages, participants)
	}
	go io.Copy(io.Discard, out) //nolint:errcheck // until the program ends
	behave := func(manner string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPut, participants+"/manners/stock/return", strings.NewReader(manner))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("stock/return is not %s: %v %v", manner, res, err)
		}
		res.Body.Close()
	}
	behave("down")

	began, step := time.Now(), 0
	tab := browser.Open(t)
	tab.Expect("a request to another server: " + participants + "/people/")
	home := strings.TrimSuffix(pages, "sign-in/oidc")
	sees := func(text string) {
		t.Helper()
		tab.See(text)
		step++
		picture(t, tab, fmt.Sprintf("demo-%d.png", step))
	}
	repair := func(reason string) {
		t.Helper()
		tab.Click("a[data-action]", "Resume compensation")
		sees("What it would do")
		tab.Fill("dialog input[name=reason]", reason)
		tab.Click("dialog button.first", "")
		sees("Accepted")
	}
	tab.Go(pages)
	sees("the compensation of reserve-stock gave up")
	tab.Click("#causes a[href*=late-order]", "")
	sees("late-0")
	tab.Click("td a", "late-0")
	sees("stock/return is in maintenance") // the reason
	var version string
	facts := `[...document.querySelectorAll(".facts div")].find(d => d.innerText.startsWith("revision"))?.innerText ?? ""`
	tab.Eval(facts, &version)
	repair("try again")
	tab.Until("that it gave up again", badge("failed")+` && (`+facts+`) !== `+fmt.Sprintf("%q", version)+` &&
		[...document.querySelectorAll("a[data-action]")].some(a => a.innerText.includes("Resume compensation"))`)
	behave("ok")
	tab.Go(home)
	tab.Click("#causes a[href*=late-order]", "")
	tab.Click("td a", "late-0")
	repair("stock answers again")
	tab.Until("the saga compensated", badge("compensated"))
	sees("compensated")
	var text string
	if tab.Eval("document.querySelector('main').innerText", &text); strings.Contains(text, "needs attention") {
		t.Errorf("the saga is not clean:\n%s", text)
	}
	t.Logf("found, understood and repaired in %s", time.Since(began).Round(time.Second))
}

// picture saves a screenshot of the tab if TEST_SCREENSHOTS names a directory.
func picture(t *testing.T, tab *browser.Tab, name string) {
	t.Helper()
	if dir := os.Getenv("TEST_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name), tab.Screenshot(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// killed: an open page reports that the server hangs or has died, even above a dialog, and
// continues to work once the server is back on the same database.
func killed(t *testing.T, program string) {
	addr, dsn := testnet.FreeAddress(t), testdb.DSN(t)
	out, server, kill := starts(t, program, dsn, addr, "serve")
	drain := func(out io.Reader) { go io.Copy(io.Discard, out) } //nolint:errcheck // until the program ends
	drain(out)
	ready(t, addr)
	tab := browser.Open(t)
	tab.Expect("net::ERR_")
	tab.Expect("503") // while the server starts
	tab.Go("http://" + addr + "/ui/workflows")
	tab.Until("the list", `document.querySelector("main h1")`)
	tab.Go("http://" + addr + "/ui/")
	tab.Until("that it is live", `document.querySelector("[data-alive]")?.innerText === "live"`)
	tab.Eval(`document.getElementById("dialog").showModal() ?? ""`, new(string))
	signal(t, server, syscall.SIGSTOP)
	tab.Eval(`document.dispatchEvent(new Event("skald:refresh"))`, new(bool))
	tab.See("Skald has not answered for 5 s")
	var above string
	tab.Eval(`(e => { const r = e.getBoundingClientRect(); return [document.elementFromPoint(r.x + 9, r.y + 9) === e,
		document.querySelector("[data-alive]").textContent].join() })(document.getElementById("offline"))`, &above)
	if above != "true,not live" {
		t.Errorf("while the server hangs, the message is on top, and the page is live: %s", above)
	}
	signal(t, server, syscall.SIGCONT)
	tab.Eval(`document.dispatchEvent(new Event("skald:refresh"))`, new(bool))
	tab.Until("that it answers", `document.getElementById("offline").hidden`)
	tab.Go("http://" + addr + "/ui/workflows")
	tab.Until("the list", `document.querySelector("main h1")`)
	kill(syscall.SIGKILL)
	tab.Eval(`(document.dispatchEvent(new Event("skald:refresh")), window.loaded = "once")`, new(string))
	tab.See("Skald is not responding")
	out, _, _ = starts(t, program, dsn, addr, "serve")
	drain(out)
	ready(t, addr)
	res, err := http.Post("http://"+addr+"/api/v1/workflows", "application/json", strings.NewReader(`{"name": "born-later",
		"steps": [{"name": "one", "action": {"http": {"url": "http://127.0.0.1:9/one"}}, "compensation": "none"}]}`))
	if err != nil || res.StatusCode != http.StatusCreated {
		t.Fatalf("register: %v %v", res, err)
	}
	res.Body.Close()
	tab.Until("that it is back", `document.getElementById("offline").hidden`)
	tab.See("born-later")
	tab.Follows()
	var loaded string
	if tab.Eval("window.loaded ?? 'again'", &loaded); loaded != "once" {
		t.Errorf("the page was loaded %s", loaded)
	}
}

func signal(t *testing.T, p *os.Process, s os.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// ready waits until a server is ready.
func ready(t *testing.T, addr string) {
	t.Helper()
	patience.Until(t, addr+" is ready", func() bool {
		res, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}
