package letterpages_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/uitest"
)

func TestATopicGetsAPolicyOfItsOwn(t *testing.T) {
	s := start(t)
	s.push(t, map[string]any{"original_topic": "orders/eu " + hostile})
	topic := "/ui/dlq/topics/orders%2Feu%20%3Cscript%3Ealert%281%29%3C%2Fscript%3E"
	s.page(t, "/ui/dlq/topics", topic, "Default policy")
	s.page(t, topic, "1 letter is open, 0 letters are dead. Automatic retries are off: open letters wait for an operator",
		"inherited from the default policy", "</span> new</span>")
	policy := topic + "/policy"
	form := uitest.Form(s.page(t, policy, "Gray values are inherited from the", "no (inherited)", "Nothing changes"))
	form.Set("max_retries", "7")
	form.Set("alert.count", "1")
	form.Set("redact", "card.number\ncustomer")
	form.Set("do", "preview")
	if _, page, _ := s.Post(t, policy, form); !strings.Contains(page, "gets its own policy") ||
		!strings.Contains(page, "to <code>7</code>.") {
		t.Errorf("the preview:\n%s", page)
	}
	form.Set("do", "act")
	form.Set("reason", "cards")
	if status, page, to := s.Post(t, policy, form); status != http.StatusSeeOther || to != topic {
		t.Fatalf("%d %s\n%s", status, to, page)
	}
	s.page(t, topic, "specific to this topic", "card.number", "<dd>7</dd>")
	s.page(t, policy, `value="7"`, "This topic has its own policy")
	s.act(t, policy, "reason", "open again", "max_retries", "7", "auto_retry", "true", "redact", "")
	page := s.page(t, topic, "<dd>yes</dd>")
	if strings.Contains(page, "card.number") {
		t.Error("a list that was emptied keeps its values")
	}
	if strings.Contains(page, "retries are off") {
		t.Errorf("a topic whose letters are retried automatically says that they are not\n%s", page)
	}
	form.Set("max_retries", "-1")
	status, page, _ := s.Post(t, policy, form)
	if status == http.StatusSeeOther || !strings.Contains(page, "max_retries") {
		t.Errorf("a negative number: %d\n%s", status, page)
	}
	s.page(t, "/ui/dlq/topics/none/policy", "No letter of this topic has been received yet")
	s.act(t, "/ui/dlq/policy", "hold_all", "true", "reason", "outage")
	s.page(t, "/ui/dlq/policy", "Hold every topic")
	if status, _ := s.Get(t, "/ui/dlq/topics/none-at-all"); status != http.StatusNotFound {
		t.Errorf("an unknown topic: %d", status)
	}
}

func TestLettersAreImportedAndWrongLinesNamed(t *testing.T) {
	s := start(t)
	s.page(t, "/ui/dlq/import", "multipart/form-data")
	id := s.push(t, map[string]any{})
	_, exported := s.Get(t, "/api/v1/dlq/export")
	s.act(t, "/ui/dlq/letters/"+id+"/actions/delete", "reason", "test", "confirm", id[len(id)-6:])
	letter, _, _ := strings.Cut(exported, "\n")
	status, page := s.upload(t, letter+"\n"+`{"original_topic":"`+hostile+`"}`+"\n")
	if status != http.StatusUnprocessableEntity || !strings.Contains(page, "1 imported") ||
		!strings.Contains(page, `>2</td>`) || strings.Contains(page, hostile) {
		t.Errorf("a wrong line: %d\n%s", status, page)
	}
	if status, page := s.upload(t, exported); status != http.StatusOK ||
		!strings.Contains(page, "0 imported, 1 already existed, 0 failed") {
		t.Errorf("a file that is right: %d\n%s", status, page)
	}
	s.page(t, "/ui/dlq/letters/"+id, "waits for an operator")
	if status, _, _ := s.Post(t, "/ui/dlq/import", nil); status != http.StatusBadRequest {
		t.Errorf("no file: %d", status)
	}
}

// upload sends the import form like a browser.
func (s site) upload(t *testing.T, content string) (int, string) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "letters.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(file, content)
	_ = form.Close()
	req, err := http.NewRequest(http.MethodPost, s.URL+"/ui/dlq/import", &body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(page)
}
