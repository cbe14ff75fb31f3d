package org.apache.paimon.testutils.assertj;

import org.assertj.core.api.ThrowingConsumer;

/** The assertions of paimon-test-utils that the tests use: that library is not in Maven's repositories. */
public final class PaimonAssertions {

    private PaimonAssertions() {}

    public static ThrowingConsumer<? super Throwable> anyCauseMatches(Class<? extends Throwable> kind, String text) {
        return thrown -> {
            for (Throwable each = thrown; each != null; each = each.getCause()) {
                if (kind.isInstance(each) && each.getMessage() != null && each.getMessage().contains(text)) {
                    return;
                }
            }
            throw new AssertionError("no cause is a " + kind.getName() + " with the text: " + text, thrown);
        };
    }

    public static ThrowingConsumer<? super Throwable> anyCauseMatches(Class<? extends Throwable> kind) {
        return anyCauseMatches(kind, "");
    }

    public static ThrowingConsumer<? super Throwable> anyCauseMatches(String text) {
        return anyCauseMatches(Throwable.class, text);
    }
}
