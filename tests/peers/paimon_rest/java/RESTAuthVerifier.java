package org.apache.paimon.rest;

import java.util.HashMap;
import java.util.Map;
import org.apache.paimon.rest.auth.AuthProvider;
import org.apache.paimon.rest.auth.DLFDefaultSigner;
import org.apache.paimon.rest.auth.DLFToken;
import org.apache.paimon.rest.auth.RESTAuthParameter;

/** Signs a request again by the headers that came with it, so that the server can compare the signatures. */
public final class RESTAuthVerifier implements AuthProvider {

    private final DLFToken token;
    private final DLFDefaultSigner signer;

    public RESTAuthVerifier(String key, String secret, String session, String region) {
        this.token = new DLFToken(key, secret, session, null);
        this.signer = new DLFDefaultSigner(region);
    }

    @Override
    public Map<String, String> mergeAuthHeader(Map<String, String> headers, RESTAuthParameter request) {
        try {
            Map<String, String> signed = new HashMap<>(headers);
            signed.put("Authorization", signer.authorization(request, token, "", headers));
            return signed;
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    }
}
