package keylatch.lock.tests;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads JSON, as far as the list of scenarios needs it: no escapes but of quotes, whole numbers. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        if (json.next() != '\0') throw json.wrong();
        return value;
    }

    private Object value() {
        char first = next();
        if (first == '{') return object();
        if (first == '[') return list();
        if (first == '"') return string();
        int begin = at;
        while (at < text.length() && ",]} \n".indexOf(text.charAt(at)) < 0) at++;
        String word = text.substring(begin, at);
        return switch (word) {
            case "null" -> null;
            case "true" -> true;
            case "false" -> false;
            default -> Long.valueOf(word);
        };
    }

    private Map<String, Object> object() {
        Map<String, Object> object = new LinkedHashMap<>();
        at++;
        while (next() != '}') {
            String name = string();
            expect(':');
            object.put(name, value());
            if (next() == ',') at++;
        }
        at++;
        return object;
    }

    private List<Object> list() {
        List<Object> list = new ArrayList<>();
        at++;
        while (next() != ']') {
            list.add(value());
            if (next() == ',') at++;
        }
        at++;
        return list;
    }

    private String string() {
        expect('"');
        StringBuilder string = new StringBuilder();
        for (; text.charAt(at) != '"'; at++) {
            if (text.charAt(at) == '\\') at++;
            string.append(text.charAt(at));
        }
        at++;
        return string.toString();
    }

    private void expect(char expected) {
        if (next() != expected) throw wrong();
        at++;
    }

    /** Returns the next character that is not blank, without taking it; zero at the end. */
    private char next() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) at++;
        return at < text.length() ? text.charAt(at) : '\0';
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("no JSON at " + at);
    }
}
