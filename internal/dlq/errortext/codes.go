package errortext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// codeWords are the words after which a number is a code and not a count, with the maximum number
// of digits. counted means that the number is a count if a noun follows, as in "error 3 times".
var codeWords = func() map[string]codeWord {
	all := map[string]codeWord{}
	for of, words := range map[codeWord]string{
		{4, false}: `status statuscode statut estado stato статус lnk cs`,
		{3, false}: `httpstatus http https httpcode exitcode`,
		{5, false}: `errno sqlstate sqlcode ora tns pls ts`,
		{6, false}: `errorcode errcode returncode resultcode responsecode rc fehlercode foutcode felkod amq
			code código codigo codice kod код`,
		{3, true}: `exit returned returns answered responded replied response received got gave`,
		{2, true}: `signal`,
		{6, true}: `error err fehler erreur erro errore fout ошибка hata fel`,
	} {
		for _, w := range strings.Fields(words) {
			all[w] = of
		}
	}
	return all
}()

type codeWord struct {
	digits  int
	counted bool
}

// asCodes are words with the role of codeWords at the end of a phrase, for languages without
// spaces.
var asCodes = []string{
	"状态码", "状态", "狀態碼", "错误码", "错误代码", "代码", "錯誤碼", "错误",
	"コード", "ステータス", "エラー", "상태", "코드", "오류",
}

// otherCodes are words that, before "code", show that it is not an error code.
var otherCodes = set(`
	zip postal post product promo promotion country area verification security discount coupon voucher
	bar qr sms currency item customer order access auth confirmation pin tracking bank sort swift tax
	booking reservation`)

// afterStatus are the words that may follow an HTTP status. After any other lower-case word, the
// number is a count: "returned 200 rows".
var afterStatus = set(`
	from for on after at while to in instead and when but with because by of or not is was status error
	response code during via as without`)

// reasons are the first words of HTTP reason phrases.
var reasons = set(`
	Bad Unauthorized Payment Forbidden Not Method Proxy Request Conflict Gone Length Precondition
	Payload Content URI Unsupported Range Expectation Misdirected Unprocessable Locked Failed Too
	Upgrade Unavailable Internal Service Gateway HTTP Insufficient Loop Network Server Client`)

// isCode reports whether digits are a code, judging by the surrounding words: those already
// written, and the rest of the message.
func (s *scan) isCode(digits string, end int) bool {
	if len(digits) > 6 || end < len(s.in) && (s.in[end] == '.' || s.in[end] == ',') && at(s.in, end+1, digit) {
		return false
	}
	status := len(digits) == 3 && digits[0] >= '1' && digits[0] <= '5'
	if status && reasonAt(s.in, end) {
		return true
	}
	if s.isPrefixed(digits, end) {
		return true
	}
	before := trimmed(s.tail(48))
	word := lastWord(before)
	if word == "" {
		return false
	}
	for _, w := range asCodes {
		if word[0] >= utf8.RuneSelf && strings.HasSuffix(word, w) {
			return true
		}
	}
	rest := strings.TrimRight(before[:len(before)-len(word)], " _-")
	word = strings.ToLower(word)
	switch word {
	case "with", "mit", "avec", "con", "by":
		word = strings.ToLower(lastWord(rest)) // "responded with 503"
		if word == "failed" || word == "rejected" || word == "refused" || word == "ended" || word == "closed" {
			word = "answered"
		}
	case "code", "status":
		if other := strings.ToLower(lastWord(rest)); word == "code" && otherCodes[other] {
			return false
		}
	}
	w, is := codeWords[word]
	if !is || len(digits) > w.digits || w.digits == 3 && w.counted && word != "exit" && !status {
		return false
	}
	return !w.counted || !countsAt(s.in, end)
}

// trimmed returns text without the separators between a word and its number.
func trimmed(text []byte) string {
	for {
		n := len(text)
		switch {
		case n > 0 && strings.IndexByte(" :=([-/#_", text[n-1]) >= 0:
			text = text[:n-1]
		case n > 2 && (string(text[n-3:]) == "：" || string(text[n-3:]) == "（" || string(text[n-3:]) == "＝"):
			text = text[:n-3]
		default:
			return string(text)
		}
	}
}

// isPrefixed reports whether digits belong to a code such as ORA-00942 or SHA-256, or to one at the
// beginning of a message: "PAY-4042: declined", "[PAY-4042] declined".
func (s *scan) isPrefixed(digits string, end int) bool {
	out := s.out
	n := len(out)
	if n < 2 || out[n-1] != '-' || !is(out[n-2], letter) {
		return false
	}
	begin := n - 1
	for begin > 0 && is(out[begin-1], letter) {
		begin--
	}
	var buf [12]byte
	if n-1-begin >= cap(buf) || begin > 0 && (is(out[begin-1], begun) || out[begin-1] == '-') {
		return false
	}
	prefix := string(out[begin : n-1])
	if standards[string(inLower(buf[:0], prefix))] && len(digits) < 6 {
		return true
	}
	if !all(prefix, upper) {
		return false
	}
	if prefixes[prefix] {
		return true
	}
	switch string(out[:begin]) {
	case "":
		return len(digits) < 6 && strings.HasPrefix(s.in[end:], ":")
	case "[":
		return len(digits) < 6 && strings.HasPrefix(s.in[end:], "]")
	}
	return false
}

// prefixes precede codes, separated by a hyphen.
var prefixes = set(`
	ORA TNS PLS SQL SQLCODE SQLSTATE ERR ERROR E EC EX CODE HTTP STATUS RC AMQ CWE KB MSB TS CS LNK JMS
	LDAP FATAL MY DB GRPC SP`)

// standards are names that include a number, in any case.
var standards = set(`
	utf ucs sha aes iso rfc crc http`)

// lastWord returns the letters at the end of s.
func lastWord(s string) string {
	i := len(s)
	for i > 0 && (is(s[i-1], letter) || s[i-1] >= utf8.RuneSelf) {
		i--
	}
	return s[i:]
}

// reasonAt reports whether a number is followed by an HTTP reason phrase: "404 Not Found".
func reasonAt(s string, i int) bool {
	for n := 0; i < len(s) && n < 3 && (s[i] == ' ' || s[i] == ':' || s[i] == '-'); n++ {
		i++
	}
	end := span(s, i, letter)
	return reasons[s[i:end]] && (end == len(s) || strings.IndexByte(" ,;:)\n", s[end]) >= 0)
}

// countsAt reports whether a number is followed by the thing that it counts. It skips characters
// that are replaced by a space or dropped.
func countsAt(s string, i int) bool {
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r != utf8.RuneError && !isQuote(r) && !unicode.IsSpace(r) && !unicode.IsControl(r) {
			break
		}
		i += n
	}
	end := span(s, i, small)
	if end == i || afterStatus[s[i:end]] {
		return false
	}
	r, _ := utf8.DecodeRuneInString(s[end:])
	return !unicode.IsLetter(r)
}
